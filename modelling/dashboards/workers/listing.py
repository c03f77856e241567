"""The workers page: the map, and a table with agreement, fit to the model, response times and flags."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from django.core.paginator import Page, Paginator
from django.db.models import Count, F
from django.http import QueryDict
from django.utils.translation import gettext_lazy

from annotation.http.arm_filter import EVERY_ARM, ArmFilter
from annotation.importing.judgements import PLATFORM as IMPORTED
from annotation.models import Judgement, PlatformIdentity, Project, Worker, WorkerExclusion
from modelling.dashboards.common.figures import Figure
from modelling.dashboards.common.judgements import WorkerTally, worker_tally
from modelling.dashboards.common.query import search_term
from modelling.dashboards.common.shares import NO_SHARE, Share
from modelling.dashboards.common.traits import format_answer, varying_traits
from modelling.dashboards.workers.assessment import Assessment, AssessmentNames
from modelling.dashboards.workers.flags import Flag, find_flags
from modelling.dashboards.workers.worker_map import (
    MAX_POINTS,
    MapPoint,
    MapPosition,
    map_axes,
    map_figure,
    map_positions,
)
from modelling.findings.workers.versions import get_assessments
from modelling.models import ModelSnapshot
from modelling.training.components.axes import ComponentAxes, ComponentAxis, load_component_axes

PER_PAGE = 25
COLUMNS = [  # foreseen_by_own_model is the name of explained_by_model in 0.1
    "worker", "state", "judgements", "decided", "agrees_with_consensus", "foreseen_by_own_model",
    "explained_by_model", "median_seconds", "flags", "x_component", "x", "x_sd", "y_component", "y", "y_sd", "version",
    "as_of_seq", "excluded", "exclusion_reason", "arm", "careless", "different", "ordinary", "assessed_answers",
]  # fmt: skip
LAST = float("inf")


@dataclass(frozen=True)
class WorkersQuery:
    """Query parameters of the page; unknown values give the defaults."""

    search: str = ""
    order: str = "judgements"
    trait: str = ""
    page: str = ""

    @classmethod
    def parse(cls, query: QueryDict) -> "WorkersQuery":
        order = query.get("sort", "")
        search, trait = (search_term(query, name) for name in ("q", "trait"))
        return cls(search, order if order in ORDERS else "judgements", trait, query.get("page", ""))


class WorkerRecord(NamedTuple):
    """The columns needed for all workers; full rows are loaded only for the current page."""

    pk: int
    code: str
    state: str
    traits: dict[str, Any]
    arm_name: str | None


@dataclass(frozen=True, eq=False)
class WorkerRow:
    """One worker. Shares are of the decided judgements in the version; `exclusion_reason` is None unless excluded."""

    worker: WorkerRecord | Worker
    judgements: int
    agreement: Share = NO_SHARE
    explained: Share = NO_SHARE
    seconds: float | None = None
    position: MapPosition | None = None
    exclusion_reason: str | None = None
    original_id: str = ""  # in the imported file
    arm: str = ""
    assessment: Assessment | None = None
    statistics: "_WorkerStatistics | None" = field(default=None, repr=False)

    @cached_property
    def flags(self) -> list[Flag]:
        assessed = self.assessment.flags if self.assessment else []
        return assessed + (self.statistics.flags(self.worker.pk) if self.statistics else [])

    @property
    def careless(self) -> float:
        """Probability that the worker is careless; 0 without an assessment."""
        return self.assessment.row.careless if self.assessment else 0.0

    @property
    def traits_text(self) -> str:
        return "; ".join(f"{name}: {format_answer(answer)}" for name, answer in self.worker.traits.items())


@dataclass(frozen=True)
class WorkersPage:
    query: WorkersQuery
    rows: list[WorkerRow]
    page: Page
    n_workers: int
    traits: list[str]
    axes: list[ComponentAxis]
    figures: list[Figure]
    arms: ArmFilter

    @property
    def has_times(self) -> bool:
        return any(row.seconds is not None for row in self.rows)

    @property
    def has_flags(self) -> bool:
        return any(row.flags for row in self.rows)

    @property
    def has_assessments(self) -> bool:
        return any(row.assessment for row in self.rows)

    @property
    def has_exclusions(self) -> bool:
        return any(row.exclusion_reason is not None for row in self.rows)

    @property
    def has_original_ids(self) -> bool:
        return any(row.original_id for row in self.rows)

    @property
    def has_traits(self) -> bool:
        return any(row.traits_text for row in self.rows)

    @property
    def orders(self) -> list[tuple[str, Any]]:
        return [(name, label) for name, (label, _key) in ORDERS.items()]


def _descending(value: float | None) -> float:
    return LAST if value is None else -value


def _ascending(value: float | None) -> float:
    return LAST if value is None else value


ORDERS: dict[str, tuple[Any, Any]] = {
    "judgements": (gettext_lazy("most judgements"), lambda row: -row.judgements),
    "agreement": (gettext_lazy("lowest agreement with the crowd"), lambda row: _ascending(row.agreement.value)),
    "explained": (gettext_lazy("least explained by the model"), lambda row: _ascending(row.explained.value)),
    "fast": (gettext_lazy("fastest"), lambda row: _ascending(row.seconds)),
    "slow": (gettext_lazy("slowest"), lambda row: _descending(row.seconds)),
    "flagged": (gettext_lazy("flagged first"), lambda row: -len(row.flags)),
    "careless": (gettext_lazy("most likely careless"), lambda row: -row.careless),
    "excluded": (gettext_lazy("excluded first"), lambda row: row.exclusion_reason is None),
    "newest": (gettext_lazy("newest"), lambda row: -row.worker.pk),
}


def workers_page(
    project: Project, snapshot: ModelSnapshot | None, query: WorkersQuery, arms: ArmFilter = EVERY_ARM
) -> WorkersPage:
    """One page of the workers, searched and sorted by the query, and the map of all that match."""
    axes = load_component_axes(snapshot) if snapshot else None
    rows = worker_rows(project, snapshot, axes)
    chosen = [row for row in rows if _matches(row, query.search) and arms.name in ("", row.arm)]
    chosen.sort(key=lambda row: (ORDERS[query.order][1](row), row.worker.pk))
    page = Paginator(chosen, PER_PAGE).get_page(query.page)
    workers = Worker.objects.in_bulk([row.worker.pk for row in page])
    shown = [replace(row, worker=workers[row.worker.pk]) for row in page if row.worker.pk in workers]
    traits = varying_traits([row.worker.traits for row in rows])
    figures = _map_figures(project, axes, chosen, page, query.trait if query.trait in traits else "") if axes else []
    return WorkersPage(query, shown, page, len(rows), traits, map_axes(axes) if axes else [], figures, arms)


def _map_figures(
    project: Project, axes: ComponentAxes, chosen: list[WorkerRow], page: Page, trait: str
) -> list[Figure]:
    placed = sorted((row for row in chosen if row.position), key=lambda row: (-row.judgements, row.worker.pk))
    points = [
        MapPoint(row.worker.pk, row.worker.code, row.worker.traits, row.judgements, row.position)
        for row in placed[:MAX_POINTS]
        if row.position
    ]
    return [map_figure(project, axes, points, {row.worker.pk for row in page}, trait)] if points else []


def worker_rows(project: Project, snapshot: ModelSnapshot | None, axes: ComponentAxes | None) -> list[WorkerRow]:
    """Every worker with the version's counts; before the first version, with the number of valid judgements."""
    workers = Worker.objects.visible().filter(project=project).annotate(arm_name=F("arm__name"))
    records = [WorkerRecord(*row) for row in workers.values_list(*WorkerRecord._fields)]
    excluded = WorkerExclusion.objects.filter(worker__project=project, until_revision=None)
    reasons = dict(excluded.values_list("worker", "reason"))
    identities = PlatformIdentity.objects.filter(project=project, platform=IMPORTED)
    originals = dict(identities.values_list("worker", "external_id"))

    found = get_assessments(project, snapshot) if snapshot else {}
    names = AssessmentNames.load(found.values())
    assessments = {pk: Assessment(row, names) for pk, row in found.items()}

    def add_facts(row: WorkerRow) -> WorkerRow:
        pk = row.worker.pk
        original, assessment = originals.get(pk, ""), assessments.get(pk)
        return replace(row, exclusion_reason=reasons.get(pk), original_id=original, assessment=assessment)

    if snapshot is None or axes is None:
        judgements = Judgement.objects.answers().filter(project=project)
        counts = Counter(dict(judgements.order_by().values_list("worker").annotate(Count("pk"))))
        return [add_facts(WorkerRow(record, counts[record.pk], arm=record.arm_name or "")) for record in records]
    statistics = _WorkerStatistics(worker_tally(snapshot), map_positions(axes), axes.fitted.worker_index)
    return [add_facts(statistics.row(record)) for record in records]


@dataclass(frozen=True, eq=False)
class _WorkerStatistics:
    """Statistics of a version's workers, by their index in its arrays."""

    tally: WorkerTally
    positions: list[MapPosition]
    index: dict[int, int]

    def row(self, worker: WorkerRecord) -> WorkerRow:
        at = self.index.get(worker.pk)
        if at is None:
            return WorkerRow(worker, 0, arm=worker.arm_name or "")
        decided, median = int(self.tally.decided[at]), float(self.tally.median_ms[at])
        return WorkerRow(
            worker=worker,
            judgements=int(self.tally.judgements[at]),
            agreement=Share(int(self.tally.agreed[at]), decided),
            explained=Share(int(self.tally.explained[at]), decided),
            seconds=None if np.isnan(median) else median / 1000,
            position=self.positions[at] if self.positions else None,
            arm=worker.arm_name or "",
            statistics=self,
        )

    def flags(self, worker_id: int) -> list[Flag]:
        return find_flags(self.tally, self.index[worker_id])


def _matches(row: WorkerRow, search: str) -> bool:
    term = search.casefold()
    texts = (row.worker.code, row.original_id, row.traits_text)
    return any(term in text.casefold() for text in texts)


def export_rows(snapshot: ModelSnapshot) -> Iterator[list[Any]]:
    """Export rows, one per worker: the values of the table and the map, in the order of COLUMNS."""
    axes = load_component_axes(snapshot)
    numbers: list[Any] = [*(each.number for each in map_axes(axes)), "", ""]
    for row in worker_rows(snapshot.project, snapshot, axes):
        at = row.position
        x = [at.x, at.x_sd] if at else ["", ""]
        y = [at.y, at.y_sd] if at and at.y is not None else ["", ""]
        facts = [row.worker.code, row.worker.state, row.judgements, row.agreement.n]
        values = (row.agreement.value, row.explained.value, row.explained.value, row.seconds)
        shares = ["" if value is None else value for value in values]
        flags = " ".join(flag.name for flag in row.flags)
        exclusion = ["false" if row.exclusion_reason is None else "true", row.exclusion_reason or ""]
        point = [snapshot.number, snapshot.last_sequence]
        yield [*facts, *shares, flags, numbers[0], *x, numbers[1], *y, *point, *exclusion, row.arm, *_odds(row)]


def _odds(row: WorkerRow) -> list[Any]:
    """Probabilities and number of answers of the assessment; empty cells without one."""
    if row.assessment is None:
        return [""] * 4
    stored = row.assessment.row
    return [stored.careless, stored.different, stored.ordinary, stored.answers]
