"""The page inside MTurk's frame: a preview, a link that opens the study in its own tab, and the final form.

The study itself is not framed: browsers block cookies of framed pages. The frame needs none: it identifies the worker
by the parameters that MTurk adds to its address.
"""

from csp.decorators import csp_replace
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.http import urlencode
from django.views.decorators.cache import never_cache
from django.views.decorators.clickjacking import xframe_options_exempt
from django.views.decorators.http import require_safe

from annotation.http.error_pages import request_error_page
from annotation.models import PlatformIdentity, Project, Recruitment, Worker
from annotation.models.arms import texts_before_consent
from annotation.platforms import Identity, LinkInvalid, get_platform
from annotation.platforms.mturk import FRAME_ANCESTORS, ORIGINS, is_preview, submit_address
from annotation.services.participation.arrival import get_recruitment
from annotation.services.participation.outcomes import earned_completion
from annotation.views.judging import in_study_language


@never_cache
@xframe_options_exempt
@csp_replace({"frame-ancestors": FRAME_ANCESTORS, "form-action": ORIGINS})
@require_safe
@in_study_language
def frame(request: HttpRequest, project: Project) -> HttpResponse:
    """Show the worker's status or, once they have ended, the form that submits the assignment to MTurk."""
    recruitment = get_recruitment(project)
    platform = get_platform(recruitment)
    if platform is None or platform.name != Recruitment.Platform.MTURK:
        raise Http404
    shown = {"project": project, **texts_before_consent(project)}
    if is_preview(request.GET):
        return render(request, "annotation/recruitment/mturk.html", {**shown, "preview": True})
    try:
        identity = platform.read_identity(request.GET, request.get_host())
        submit_to = submit_address(request.GET)
    except LinkInvalid as error:
        return request_error_page(request, error)
    return render(request, "annotation/recruitment/mturk.html", {**shown, **_context(project, identity, submit_to)})


def _context(project: Project, identity: Identity, submit_to: str) -> dict[str, object]:
    worker = _find_worker(project, identity)
    parameters = {"workerId": identity.external_id, "hitId": identity.study_id, "assignmentId": identity.session_id}
    completion = earned_completion(worker) if worker else None
    return {
        "identity": identity,
        "submit_to": submit_to,
        "study_link": f"{project.get_judging_url()}?{urlencode(parameters)}",
        "worker": worker,
        "ended": completion is not None,
        "paid_before": worker and completion and worker.identity.session_id != identity.session_id,
        "completion": completion,
    }


def _find_worker(project: Project, identity: Identity) -> Worker | None:
    known = PlatformIdentity.objects.filter(
        project=project, platform=identity.platform, external_id=identity.external_id
    )
    row = known.select_related("worker__project").first()
    return row.worker if row else None
