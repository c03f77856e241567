"""The versions of a model: the list, the page of one version, and the comparison of two."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from django.core.paginator import Page, Paginator
from django.db.models import Q
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from annotation.models import Item, Project
from modelling.dashboards.common.figures import Figure, FigureTable, axis, rounded
from modelling.dashboards.common.warnings import describe_warnings, find_warnings
from modelling.dashboards.model.hyperparameters import HyperparameterRow, hyperparameter_rows
from modelling.dashboards.workers.exclusion import ExclusionChange, exclusion_changes
from modelling.models import ConsensusScore, ModelSnapshot, UpdateState
from modelling.training.settings import ModelSettings, SettingRow, setting_rows
from modelling.training.versions import get_pinned_snapshot, get_shown_snapshot, snapshots_with_erased_data

VERSIONS_PER_PAGE = 25
MOVES_PER_PAGE = 25
MAX_BOUND_ROWS = 30  # in the table; longer ones are thinned
STAGE_LABELS = {
    "reading": gettext_lazy("reading new judgements"),
    "predicting": gettext_lazy("predicting new judgements"),
    "learning": gettext_lazy("fitting the model"),
    "ranking": gettext_lazy("ranking the items"),
    "storing": gettext_lazy("storing the model"),
}


@dataclass(frozen=True)
class ExcludedCount:
    """Judgements excluded from a version, and why."""

    reason: str
    count: int


@dataclass(frozen=True)
class VersionRow:
    snapshot: ModelSnapshot
    excluded: list[ExcludedCount]
    remarks: list[str]


@dataclass(frozen=True)
class VersionsPage:
    rows: list[VersionRow]
    page: Page
    newest: int
    before: int


@dataclass(frozen=True)
class UpdateStage:
    """One stage of an update; `percent` is relative to the longest."""

    name: str
    seconds: float
    percent: float


@dataclass(frozen=True)
class VersionPage:
    snapshot: ModelSnapshot
    excluded: list[ExcludedCount]
    remarks: list[str]
    settings: list[SettingRow]
    caution: str
    warnings: list[str]
    components: int | None
    hyperparameters: list[HyperparameterRow]
    figures: list[Figure]
    stages: list[UpdateStage]
    before: ModelSnapshot | None
    after: ModelSnapshot | None
    shown: bool
    pinned: bool
    knows_the_erased: bool

    @property
    def version_number(self) -> int:
        """The version of this page's figures, which need not be the shown one."""
        return self.snapshot.number


@dataclass(frozen=True)
class RankChange:
    """An item in two versions; `ranks` is positive if it has risen."""

    item: Item
    older: ConsensusScore
    newer: ConsensusScore

    @property
    def ranks(self) -> int:
        return self.older.rank - self.newer.rank

    @property
    def ranks_lost(self) -> int:
        return -self.ranks

    @property
    def score(self) -> float:
        return self.newer.mean - self.older.mean

    @property
    def new_judgements(self) -> int:
        return self.newer.judgements - self.older.judgements


@dataclass(frozen=True)
class InputChanges:
    """What changed in the inputs from one version to another."""

    new_judgements: int
    refits: int
    settings: list[SettingRow]
    exclusions: list[ExclusionChange]


@dataclass(frozen=True)
class Comparison:
    older: ModelSnapshot
    newer: ModelSnapshot
    inputs: InputChanges
    hyperparameters: list[HyperparameterRow]
    page: Page
    unchanged: int
    added: list[Item]
    removed: list[Item]
    numbers: list[int]


def versions_page(project: Project, page_number: str = "") -> VersionsPage:
    """One page of the project's versions, newest first."""
    state = _update_state(project)
    snapshots = ModelSnapshot.objects.filter(project=project).defer("diagnostics")
    page = Paginator(snapshots, VERSIONS_PER_PAGE).get_page(page_number)
    remarks = Remarks.load(project, state)
    rows = [VersionRow(snapshot, excluded_counts(snapshot), remarks.about(snapshot)) for snapshot in page]
    newest = snapshots.values_list("number", flat=True).first() or 0
    shown = get_shown_snapshot(state)
    before = shown.number if shown and shown.number != newest else newest - 1
    return VersionsPage(rows, page, newest, max(before, 0))


def excluded_counts(snapshot: ModelSnapshot) -> list[ExcludedCount]:
    labels = {"retracted": _("retracted"), "skipped": _("skipped"), "excluded": _("by excluded workers")}
    counts = {reason: int(count) for reason, count in snapshot.excluded.items() if count}
    return [ExcludedCount(labels.get(reason, reason.replace("_", " ")), count) for reason, count in counts.items()]


@dataclass(frozen=True)
class Remarks:
    """The remarks in the list of versions: pinned, newest, pruned, with data of erased people."""

    pinned: ModelSnapshot | None
    newest: ModelSnapshot | None
    with_erased_workers: set[int]

    @classmethod
    def load(cls, project: Project, state: UpdateState) -> "Remarks":
        return cls(
            get_pinned_snapshot(state),
            state.current,
            set(snapshots_with_erased_data(project.pk).values_list("pk", flat=True)),
        )

    def about(self, snapshot: ModelSnapshot) -> list[str]:
        remarks = {
            _("pinned"): snapshot == self.pinned,
            _("newest"): snapshot == self.newest,
            _("scores only"): snapshot.pruned_at is not None,
            _("contains erased workers"): snapshot.pk in self.with_erased_workers,
        }
        return [label for label, applies in remarks.items() if applies]


def version_page(snapshot: ModelSnapshot) -> VersionPage:
    """The page about one version: its inputs, settings, warnings, fit and timing."""
    state, diagnostics = _update_state(snapshot.project), snapshot.diagnostics
    remarks = Remarks.load(snapshot.project, state)
    siblings = ModelSnapshot.objects.filter(project=snapshot.project).defer("diagnostics")
    bound = bound_figure(diagnostics.get("bounds", [])) if snapshot.kind == ModelSnapshot.Kind.REFIT else None
    return VersionPage(
        snapshot=snapshot,
        excluded=excluded_counts(snapshot),
        remarks=remarks.about(snapshot),
        settings=setting_rows(ModelSettings.from_dict(snapshot.settings)),
        caution=describe_warnings(snapshot, find_warnings(snapshot)),
        warnings=[str(warning) for warning in diagnostics.get("warnings", [])],
        components=diagnostics.get("components"),
        hyperparameters=hyperparameter_rows(snapshot),
        figures=[bound] if bound else [],
        stages=update_stages(diagnostics.get("seconds", {})),
        before=siblings.filter(number__lt=snapshot.number).first(),
        after=siblings.filter(number__gt=snapshot.number).last(),
        shown=snapshot == get_shown_snapshot(state),
        pinned=snapshot == remarks.pinned,
        knows_the_erased=snapshot.pk in remarks.with_erased_workers,
    )


def update_stages(seconds: dict[str, float]) -> list[UpdateStage]:
    """The stages of an update in the order they run, which a JSON column does not preserve."""
    longest = max(seconds.values(), default=0.0)
    shares = {name: 100 * value / longest if longest > 0 else 0.0 for name, value in seconds.items()}
    return [
        UpdateStage(str(label), seconds[name], round(shares[name], 1))
        for name, label in STAGE_LABELS.items()
        if name in seconds
    ]


def bound_figure(values: Sequence[float]) -> Figure | None:
    """The lower bound after each iteration; None with fewer than two finite values."""
    bounds = np.asarray(values, dtype=float)
    if len(bounds) < 2 or not np.isfinite(bounds).all():
        return None
    iterations = list(range(1, len(bounds) + 1))
    trace = {
        "type": "scatter",
        "mode": "lines",
        "x": iterations,
        "y": rounded(bounds),
        "line": {"color": "--accent", "width": 2},
    }
    layout = {"xaxis": axis(_("Iteration")), "yaxis": axis(_("Lower bound")), "showlegend": False}
    description = _("From %(first).1f to %(last).1f") % {"first": bounds[0], "last": bounds[-1]}
    kept = np.unique(np.linspace(0, len(bounds) - 1, min(MAX_BOUND_ROWS, len(bounds))).astype(int))
    rows = [[iterations[index], round(float(bounds[index]), 2)] for index in kept]
    table = FigureTable([_("Iteration"), _("Lower bound")], rows)
    return Figure("bound", _("Lower bound during the fit"), description, [trace], layout, 280, table)


def compare_versions(older: ModelSnapshot, newer: ModelSnapshot, page_number: str = "") -> Comparison:
    """Rank changes, largest first, and items that only one of the versions has."""
    before, after = _scores_by_item(older), _scores_by_item(newer)
    both = [RankChange(score.item, before[pk], score) for pk, score in after.items() if pk in before]
    moved = sorted((each for each in both if each.ranks), key=lambda each: (-abs(each.ranks), -abs(each.score)))
    return Comparison(
        older=older,
        newer=newer,
        inputs=input_changes(older, newer),
        hyperparameters=hyperparameter_rows(newer, previous=older),
        page=Paginator(moved, MOVES_PER_PAGE).get_page(page_number),
        unchanged=len(both) - len(moved),
        added=[score.item for pk, score in after.items() if pk not in before],
        removed=[score.item for pk, score in before.items() if pk not in after],
        numbers=list(_version_numbers(older.project)),
    )


def input_changes(older: ModelSnapshot, newer: ModelSnapshot) -> InputChanges:
    between = ModelSnapshot.objects.filter(project=older.project, number__gt=older.number, number__lte=newer.number)
    before, after = ModelSettings.from_dict(older.settings), ModelSettings.from_dict(newer.settings)
    return InputChanges(
        new_judgements=newer.included - older.included,
        refits=between.filter(kind=ModelSnapshot.Kind.REFIT).count(),
        settings=[row for row in setting_rows(after, previous=before) if row.value != row.previous],
        exclusions=exclusion_changes(older.project, older, newer),
    )


def _scores_by_item(snapshot: ModelSnapshot) -> dict[int, ConsensusScore]:
    return {score.item_id: score for score in snapshot.scores.select_related("item").order_by("rank")}


def _version_numbers(project: Project) -> Iterable[int]:
    return ModelSnapshot.objects.filter(project=project).values_list("number", flat=True)


def _update_state(project: Project) -> UpdateState:
    states = UpdateState.objects.select_related("current", "pinned")
    return states.filter(Q(project=project)).first() or UpdateState()
