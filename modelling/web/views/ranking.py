"""The ranking, the public ranking, the reliability and claims pages, and the item page."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from annotation.http.arm_filter import ArmFilter
from annotation.models import Item, Project
from modelling.dashboards.claims import claims_page
from modelling.dashboards.common.freshness import Freshness, get_freshness
from modelling.dashboards.item import item_page
from modelling.dashboards.ranking import RankingQuery, ranking_page
from modelling.dashboards.reliability import reliability_page
from modelling.web.views.dashboard import Context, allow_plotly, dashboard


@dashboard("ranking/ranking.html")
def ranking(request: HttpRequest, freshness: Freshness) -> Context:
    if freshness.snapshot is None:
        return {"ranking": None}
    arms = ArmFilter.parse(freshness.project, request.GET)
    return {"ranking": ranking_page(freshness.snapshot, RankingQuery.parse(request.GET), arms)}


@require_safe
@allow_plotly
def public_ranking(request: HttpRequest, slug: str) -> HttpResponse:
    """The ranking without login, if the owner has made it public; it contains nothing about workers."""
    project = get_object_or_404(Project, slug=slug, ranking_public=True)
    freshness = get_freshness(project)
    shown = freshness.snapshot
    page = ranking_page(shown, RankingQuery.parse(request.GET), linked=False) if shown else None
    context = {"project": project, "ranking": page, "freshness": freshness}
    return render(request, "modelling/ranking/public_ranking.html", context)


@dashboard("ranking/item.html")
def item(request: HttpRequest, freshness: Freshness, pk: int) -> Context:
    found, shown = get_object_or_404(Item, project=freshness.project, pk=pk), freshness.snapshot
    found.project = freshness.project
    arms = ArmFilter.parse(freshness.project, request.GET)
    page = item_page(shown, found, arms, request.GET.get("page", "")) if shown else None
    return {"item": found, "revisions": list(freshness.project.items.revisions(found.key)), "page": page}


@dashboard("ranking/reliability.html")
def reliability(request: HttpRequest, freshness: Freshness) -> Context:
    arms = ArmFilter.parse(freshness.project, request.GET)
    return {"page": reliability_page(freshness.snapshot, arms) if freshness.snapshot else None}


@dashboard("ranking/claims.html")
def claims(request: HttpRequest, freshness: Freshness) -> Context:
    return {"page": claims_page(freshness.snapshot, request.GET.get("group", "")) if freshness.snapshot else None}
