"""The components page, and naming a component."""

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.forms import CharField
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from annotation.http.access import Role, members_only
from annotation.http.arm_filter import ArmFilter
from annotation.models import Project
from annotation.views import ResearcherRequest
from modelling.dashboards.common.freshness import Freshness
from modelling.dashboards.components import components_page
from modelling.models import ComponentName
from modelling.training.components.numbering import get_numbering, name_component
from modelling.training.storage.array_store import DamagedArrays
from modelling.training.versions import shown_snapshot
from modelling.web.views.dashboard import Context, dashboard


@dashboard("components/components.html")
def components(request: HttpRequest, freshness: Freshness) -> Context:
    arms = ArmFilter.parse(freshness.project, request.GET)
    return {"page": components_page(freshness.snapshot, arms) if freshness.snapshot else None}


@require_POST
@members_only(Role.ANALYST)
def rename(request: ResearcherRequest, project: Project, number: int) -> HttpResponse:
    """Name a component; an empty name removes the old one."""
    snapshot = shown_snapshot(project)
    try:
        if snapshot is None or number not in get_numbering(snapshot).numbers:
            raise Http404
        name = CharField(required=False, max_length=ComponentName.MAX_LENGTH).clean(request.POST.get("name", ""))
    except ValidationError as error:
        messages.error(request, error.messages[0])
    except DamagedArrays as error:
        messages.error(request, f"{error.message} {_('Nothing was changed.')}")
    else:
        name_component(project=project, user=request.user, number=number, name=name)
        messages.success(request, _("Saved."))
    return redirect("modelling:components", project.slug)
