"""One worker: what they probably prefer beside the consensus and why, and which of their answers are surprising."""

from dataclasses import dataclass
from typing import Any

from django.core.paginator import Page, Paginator
from django.http import QueryDict
from django.utils.translation import gettext_lazy

from annotation.models import Worker
from modelling.dashboards.addresses import page_number, words_in
from modelling.dashboards.answers import tally_of
from modelling.dashboards.axes import axes_of
from modelling.dashboards.personal_scores import Own, Pair, Preference, beside_picture, causes_picture
from modelling.dashboards.pictures import Picture
from modelling.dashboards.surprises import Answer, Fit, Log
from modelling.models import ModelSnapshot

ITEMS_SHOWN = 50  # the uncertainty of one item costs far more than its mean, and nobody reads a thousand rows
ITEMS_EXPLAINED = 12  # in the picture of what makes the difference
ANSWERS_PER_PAGE = 50
MOST_OFFERED = 2000  # keys in the list beside the two fields of a pair
ORDERS = {
    "own": gettext_lazy("unlike themselves"),
    "crowd": gettext_lazy("unlike the crowd"),
    "newest": gettext_lazy("newest"),
}


@dataclass(frozen=True)
class AskedOfWorker:
    """What the address asks for: a pair by keys, and which answers first."""

    a: str = ""
    b: str = ""
    order: str = "own"
    page: int = 1

    @classmethod
    def of(cls, query: QueryDict) -> "AskedOfWorker":
        order = query.get("sort", "")
        a, b = (words_in(query, name) for name in ("a", "b"))
        return cls(a, b, order if order in ORDERS else "own", page_number(query))


@dataclass(frozen=True)
class WorkerPage:
    asked: AskedOfWorker
    known: bool
    preferences: list[Preference]
    items: int
    keys: list[str]
    pair: Pair | None
    fit: Fit | None
    answers: list[Answer]
    page: Page | None
    pictures: list[Picture]

    @property
    def orders(self) -> list[tuple[str, Any]]:
        return list(ORDERS.items())


def worker_page(snapshot: ModelSnapshot, worker: Worker, asked: AskedOfWorker) -> WorkerPage:
    """The largest differences from the consensus, one pair if asked for, and the answers, the most surprising first."""
    axes = axes_of(snapshot)
    user = axes.fitted.position_of_worker(worker.pk)
    if user is None:
        return WorkerPage(asked, False, [], 0, [], None, None, [], None, [])
    own = Own(snapshot, axes, user)
    shown = own.preferences(own.by_difference[:ITEMS_SHOWN])
    log = Log.read(snapshot, worker, axes.fitted, user)
    page = Paginator(log.order(asked.order), ANSWERS_PER_PAGE).get_page(asked.page)
    keys = [each.key for each in own.ranked[:MOST_OFFERED]]
    pictures = [beside_picture(own, worker.project), causes_picture(shown[:ITEMS_EXPLAINED])] if shown else []
    pair = own.pair(asked.a, asked.b)
    fit = log.fit.counted_in(tally_of(snapshot), user) if log.fit else None
    return WorkerPage(asked, True, shown, len(own.ranked), keys, pair, fit, log.answers(list(page)), page, pictures)
