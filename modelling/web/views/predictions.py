"""Predictions on request: the pairs page, and “Test a text”."""

from django.http import HttpRequest

from annotation.http.access import SAFE_METHODS
from annotation.http.arm_filter import ArmFilter
from modelling.dashboards.common.freshness import Freshness
from modelling.dashboards.new_text import new_text_page
from modelling.dashboards.pairs import pairs_page
from modelling.training.storage.array_store import DamagedArrays, EarlierRelease
from modelling.web.forms.queries import NewTextForm, PairsForm
from modelling.web.views.dashboard import Context, dashboard


@dashboard("predictions/pairs.html")
def pairs(request: HttpRequest, freshness: Freshness) -> Context:
    form = PairsForm(freshness.project, request.GET)
    page, arms = None, ArmFilter.parse(freshness.project, request.GET)
    if freshness.snapshot and form.is_valid():
        query = form.cleaned_data
        page = pairs_page(freshness.snapshot, query["items"], query["group"], query["worker"], arms)
    return {"form": form, "page": page, "arms": arms}


@dashboard("predictions/new_text.html", methods=(*SAFE_METHODS, "POST"))
def new_text(request: HttpRequest, freshness: Freshness) -> Context:
    """Predict the score of a text sent by POST, since URLs are limited in length and logged by proxies.

    A short text can be in the URL too: the page then offers that link.
    """
    data = request.POST if request.method == "POST" else request.GET
    form = NewTextForm(freshness.project, data if data is request.POST or "text" in data else None)
    page, unreadable, earlier_release = None, False, False
    if freshness.snapshot and form.is_valid():
        try:
            page = new_text_page(freshness.snapshot, **form.cleaned_data)
        except DamagedArrays as error:
            unreadable = True  # shown below the form, so that the text is not lost
            earlier_release = isinstance(error, EarlierRelease)
    shown = {"form": form, "page": page, "link": form.link if page else ""}
    return {**shown, "unreadable": unreadable, "earlier_release": earlier_release}
