"""The progress page."""

from django.http import HttpRequest

from annotation.http.arm_filter import ArmFilter
from modelling.dashboards.common.freshness import Freshness
from modelling.dashboards.progress import progress_page
from modelling.web.views.dashboard import Context, dashboard


@dashboard("progress/progress.html")
def progress(request: HttpRequest, freshness: Freshness) -> Context:
    return {"page": progress_page(freshness, ArmFilter.parse(freshness.project, request.GET))}
