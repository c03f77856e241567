"""Pages for planning: suggested pairs, and when to stop."""

from django.http import HttpRequest

from modelling.dashboards.common.freshness import Freshness
from modelling.dashboards.planning.stopping import stopping_page
from modelling.dashboards.planning.suggestions import suggestions_page
from modelling.web.views.dashboard import Context, dashboard


@dashboard("planning/suggestions.html")
def suggestions(request: HttpRequest, freshness: Freshness) -> Context:
    return {"page": suggestions_page(freshness.project)}


@dashboard("planning/stopping.html")
def stopping(request: HttpRequest, freshness: Freshness) -> Context:
    return {"page": stopping_page(freshness.snapshot) if freshness.snapshot else None}
