"""What an owner may do about one worker."""

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from annotation.access import Role, members_only
from annotation.models import Project, Worker
from annotation.services import erase_worker
from annotation.views import ResearcherRequest


@require_POST
@members_only(Role.OWNER, archived=True)
def erase(request: ResearcherRequest, project: Project, code: str) -> HttpResponse:
    """The person goes, the study stays; their judgements go too where that was ticked."""
    worker = get_object_or_404(Worker, project=project, code=code)
    erase_worker(worker=worker, user=request.user, remove_judgements="remove_judgements" in request.POST)
    messages.success(
        request, _("This person is erased. What they judged stands under a random code, unless you took it out.")
    )
    return redirect(project)
