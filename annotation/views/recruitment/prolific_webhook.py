"""The webhook endpoint to which Prolific sends its events."""

from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from annotation.models import Recruitment
from annotation.platforms.prolific_webhook import MessageRefused, read_message
from annotation.services.participation.platform_events import record_status


@csrf_exempt  # authenticated by the signature
@require_POST
def prolific(request: HttpRequest, slug: str) -> HttpResponse:
    """Store a signed event. Repeated and unrelated events are acknowledged too, so that Prolific stops sending them."""
    rows = Recruitment.objects.filter(project__slug=slug, platform=Recruitment.Platform.PROLIFIC)
    recruitment = rows.exclude(webhook_secret="").select_related("project").first()
    if recruitment is None:
        raise Http404
    try:
        message = read_message(recruitment.webhook_secret, request.headers, request.body)
    except MessageRefused:
        return JsonResponse({"recorded": False}, status=403)
    recorded = message is not None and record_status(project=recruitment.project, message=message)
    return JsonResponse({"recorded": recorded})
