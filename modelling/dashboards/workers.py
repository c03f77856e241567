"""All workers: where they stand in the map, and how their answers fit the crowd and themselves."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from django.core.paginator import Page, Paginator
from django.db.models import Count
from django.http import QueryDict
from django.utils.translation import gettext_lazy

from annotation.models import Judgement, Project, Worker
from modelling.dashboards.addresses import page_number, words_in
from modelling.dashboards.answers import Tally, tally_of
from modelling.dashboards.axes import Axes, Axis, axes_of
from modelling.dashboards.flags import Flag, flags_of
from modelling.dashboards.opinion_map import MOST_DRAWN, Place, Spot, map_picture, pair_of, places_on_map
from modelling.dashboards.pictures import Picture
from modelling.dashboards.traits import traits_in
from modelling.models import ModelSnapshot

PER_PAGE = 50
COLUMNS = [
    "worker", "state", "judgements", "decided", "agrees_with_consensus", "foreseen_by_own_model",
    "median_seconds", "flags", "x_component", "x", "x_sd", "y_component", "y", "y_sd", "version", "as_of_seq",
]  # fmt: skip
LAST = float("inf")


@dataclass(frozen=True)
class AskedOfWorkers:
    """What the address asks for. Anything unknown means what the plain page shows."""

    words: str = ""
    order: str = "judgements"
    trait: str = ""
    page: int = 1

    @classmethod
    def of(cls, query: QueryDict) -> "AskedOfWorkers":
        order = query.get("sort", "")
        words, trait = (words_in(query, name) for name in ("q", "trait"))
        return cls(words, order if order in ORDERS else "judgements", trait, page_number(query))


class Person(NamedTuple):
    """As much of a worker as is asked of all of them: rows in full are made only for those on the page."""

    pk: int
    code: str
    state: str
    traits: dict[str, Any]


@dataclass(frozen=True, eq=False)
class Row:
    """A worker. Shares are of the decided answers the version has learned from; None where it knows none."""

    worker: Person | Worker
    judgements: int
    decided: int = 0
    agreement: float | None = None
    foreseen: float | None = None
    seconds: float | None = None
    place: Place | None = None
    known: "_Known | None" = field(default=None, repr=False)

    @cached_property
    def flags(self) -> list[Flag]:
        """What stands out about them."""
        return flags_of(self.known.tally, self.known.at[self.worker.pk]) if self.known else []

    @property
    def told(self) -> str:
        """What the worker said about themselves."""
        return "; ".join(f"{name}: {answer}" for name, answer in self.worker.traits.items())


@dataclass(frozen=True)
class WorkersPage:
    asked: AskedOfWorkers
    rows: list[Row]
    page: Page
    n_workers: int
    traits: list[str]
    pair: list[Axis]
    pictures: list[Picture]

    @property
    def has_times(self) -> bool:
        return any(row.seconds is not None for row in self.rows)

    @property
    def has_flags(self) -> bool:
        return any(row.flags for row in self.rows)

    @property
    def has_traits(self) -> bool:
        return any(row.told for row in self.rows)

    @property
    def orders(self) -> list[tuple[str, Any]]:
        return [(name, words) for name, (words, _key) in ORDERS.items()]


def _most(value: float | None) -> float:
    return LAST if value is None else -value


def _least(value: float | None) -> float:
    return LAST if value is None else value


ORDERS: dict[str, tuple[Any, Any]] = {
    "judgements": (gettext_lazy("most judgements"), lambda row: -row.judgements),
    "agreement": (gettext_lazy("agree least with the crowd"), lambda row: _least(row.agreement)),
    "foreseen": (gettext_lazy("least like themselves"), lambda row: _least(row.foreseen)),
    "fast": (gettext_lazy("fastest"), lambda row: _least(row.seconds)),
    "slow": (gettext_lazy("slowest"), lambda row: _most(row.seconds)),
    "flagged": (gettext_lazy("flagged first"), lambda row: -len(row.flags)),
    "newest": (gettext_lazy("joined last"), lambda row: -row.worker.pk),
}


def workers_page(project: Project, snapshot: ModelSnapshot | None, asked: AskedOfWorkers) -> WorkersPage:
    """One page of the workers, searched and sorted as asked, and the map of all who match."""
    axes = axes_of(snapshot) if snapshot else None
    everyone = workers_of_project(project, snapshot, axes)
    chosen = [row for row in everyone if _matches(row, asked.words)]
    chosen.sort(key=lambda row: (ORDERS[asked.order][1](row), row.worker.pk))
    page = Paginator(chosen, PER_PAGE).get_page(asked.page)
    in_full = Worker.objects.in_bulk([row.worker.pk for row in page])
    shown = [replace(row, worker=in_full[row.worker.pk]) for row in page if row.worker.pk in in_full]
    traits = traits_in([row.worker.traits for row in everyone])
    pictures = _map(project, axes, chosen, page, asked.trait if asked.trait in traits else "") if axes else []
    return WorkersPage(asked, shown, page, len(everyone), traits, pair_of(axes) if axes else [], pictures)


def _map(project: Project, axes: Axes, chosen: list[Row], page: Page, trait: str) -> list[Picture]:
    placed = sorted((row for row in chosen if row.place), key=lambda row: (-row.judgements, row.worker.pk))
    spots = [
        Spot(row.worker.pk, row.worker.code, row.worker.traits, row.judgements, row.place)
        for row in placed[:MOST_DRAWN]
        if row.place
    ]
    return [map_picture(project, axes, spots, {row.worker.pk for row in page}, trait)] if spots else []


def workers_of_project(project: Project, snapshot: ModelSnapshot | None, axes: Axes | None) -> list[Row]:
    """Every worker of the project, with what the version has counted; before the first, with the answers that stand."""
    people = Worker.objects.that_may_be_told().filter(project=project)
    workers = [Person(*row) for row in people.values_list(*Person._fields)]
    if snapshot is None or axes is None:
        answers = Judgement.objects.answers().filter(project=project)
        given = Counter(dict(answers.order_by().values_list("worker").annotate(Count("pk"))))
        return [Row(worker, given[worker.pk]) for worker in workers]
    known = _Known(tally_of(snapshot), places_on_map(axes), axes.fitted.worker_at)
    return [known.row(worker) for worker in workers]


@dataclass(frozen=True, eq=False)
class _Known:
    """What a version knows of its workers, and where each stands in its arrays."""

    tally: Tally
    stands: list[Place]
    at: dict[int, int]

    def row(self, worker: Person) -> Row:
        place = self.at.get(worker.pk)
        if place is None:
            return Row(worker, 0)
        decided, median = int(self.tally.decided[place]), float(self.tally.median_ms[place])
        return Row(
            worker=worker,
            judgements=int(self.tally.answers[place]),
            decided=decided,
            agreement=int(self.tally.agreed[place]) / decided if decided else None,
            foreseen=int(self.tally.foreseen[place]) / decided if decided else None,
            seconds=None if np.isnan(median) else median / 1000,
            place=self.stands[place] if self.stands else None,
            known=self,
        )


def _matches(row: Row, words: str) -> bool:
    wanted = words.casefold()
    return wanted in row.worker.code.casefold() or wanted in row.told.casefold()


def worker_rows(snapshot: ModelSnapshot) -> Iterator[list[Any]]:
    """Every worker, as the table and the map show them, for a file."""
    axes = axes_of(snapshot)
    pair: list[Any] = [each.number for each in pair_of(axes)] or ["", ""]
    for row in workers_of_project(snapshot.project, snapshot, axes):
        place = row.place
        x, y = ([place.x, place.x_sd], [place.y, place.y_sd]) if place else (["", ""], ["", ""])
        facts = [row.worker.code, row.worker.state, row.judgements, row.decided]
        shares = ["" if share is None else share for share in (row.agreement, row.foreseen, row.seconds)]
        flags = " ".join(flag.name for flag in row.flags)
        yield [*facts, *shares, flags, pair[0], *x, pair[1], *y, snapshot.number, snapshot.last_sequence]
