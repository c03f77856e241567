"""The versions of a model: the list, one of them in full, and what moved between two."""

from collections.abc import Iterable
from dataclasses import dataclass

from django.core.paginator import Page, Paginator
from django.db.models import Q
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from annotation.models import Item, Project
from modelling.dashboards.pictures import Picture
from modelling.dashboards.traces import bound_picture
from modelling.forms import Explained, explained
from modelling.model_settings import ModelSettings
from modelling.models import ConsensusScore, ModelSnapshot, UpdateState
from modelling.versions import knowing_the_erased, pinned_of, shown_of

VERSIONS_PER_PAGE = 50
MOVES_PER_PAGE = 100
PARTS = {
    "reading": gettext_lazy("reading what is new"),
    "foretelling": gettext_lazy("foretelling it, for the scoreboard"),
    "learning": gettext_lazy("learning"),
    "ranking": gettext_lazy("ranking the items"),
    "storing": gettext_lazy("storing the model"),
}


@dataclass(frozen=True)
class Left:
    """Judgements a version did not learn from, and why."""

    reason: str
    count: int


@dataclass(frozen=True)
class Version:
    """A row of the list."""

    snapshot: ModelSnapshot
    left_out: list[Left]
    remarks: list[str]


@dataclass(frozen=True)
class VersionsPage:
    rows: list[Version]
    page: Page
    newest: int
    before: int


@dataclass(frozen=True)
class Part:
    """One part of the time an update took."""

    name: str
    seconds: float
    percent: float


@dataclass(frozen=True)
class VersionPage:
    snapshot: ModelSnapshot
    left_out: list[Left]
    remarks: list[str]
    settings: list[Explained]
    warnings: list[str]
    mixing: dict[str, float]
    pictures: list[Picture]
    parts: list[Part]
    before: ModelSnapshot | None
    after: ModelSnapshot | None
    shown: bool
    pinned: bool
    knows_the_erased: bool

    @property
    def revision(self) -> int:
        """The version that the page's pictures speak of, whichever is shown elsewhere."""
        return self.snapshot.number


@dataclass(frozen=True)
class Move:
    """An item in two versions. `ranks` is positive for one that has risen."""

    item: Item
    older: ConsensusScore
    newer: ConsensusScore

    @property
    def ranks(self) -> int:
        return self.older.rank - self.newer.rank

    @property
    def fallen(self) -> int:
        return -self.ranks

    @property
    def score(self) -> float:
        return self.newer.mean - self.older.mean

    @property
    def new_judgements(self) -> int:
        return self.newer.judgements - self.older.judgements


@dataclass(frozen=True)
class Between:
    """What happened from one version to another."""

    learned: int
    refits: int
    changed: list[Explained]


@dataclass(frozen=True)
class Comparison:
    older: ModelSnapshot
    newer: ModelSnapshot
    between: Between
    page: Page
    still: int
    came: list[Item]
    went: list[Item]
    numbers: list[int]


def versions_page(project: Project, number: int = 1) -> VersionsPage:
    """All versions, the newest first."""
    state = _state_of(project)
    snapshots = ModelSnapshot.objects.filter(project=project).defer("diagnostics")
    page = Paginator(snapshots, VERSIONS_PER_PAGE).get_page(number)
    told = Remarks.of(project, state)
    rows = [Version(snapshot, left_out(snapshot), told.about(snapshot)) for snapshot in page]
    newest = snapshots.values_list("number", flat=True).first() or 0
    shown = shown_of(state)
    before = shown.number if shown and shown.number != newest else newest - 1
    return VersionsPage(rows, page, newest, max(before, 0))


def left_out(snapshot: ModelSnapshot) -> list[Left]:
    """Why judgements were left out, in words."""
    known = {"retracted": _("taken back"), "skipped": _("skipped"), "excluded": _("worker excluded")}
    counts = {reason: int(count) for reason, count in snapshot.excluded.items() if count}
    return [Left(known.get(reason, reason.replace("_", " ")), count) for reason, count in counts.items()]


@dataclass(frozen=True)
class Remarks:
    """What is special about versions of a project."""

    pinned: ModelSnapshot | None
    newest: ModelSnapshot | None
    knowing_the_erased: set[int]

    @classmethod
    def of(cls, project: Project, state: UpdateState) -> "Remarks":
        return cls(pinned_of(state), state.current, set(knowing_the_erased(project.pk).values_list("pk", flat=True)))

    def about(self, snapshot: ModelSnapshot) -> list[str]:
        facts = {
            _("pinned"): snapshot == self.pinned,
            _("newest"): snapshot == self.newest,
            _("refined"): snapshot.refined,
            _("only scores kept"): snapshot.pruned_at is not None,
            _("knows people erased since"): snapshot.pk in self.knowing_the_erased,
        }
        return [words for words, true in facts.items() if true]


def version_page(snapshot: ModelSnapshot) -> VersionPage:
    """Everything that explains one version."""
    state, told = _state_of(snapshot.project), snapshot.diagnostics
    remarks = Remarks.of(snapshot.project, state)
    siblings = ModelSnapshot.objects.filter(project=snapshot.project).defer("diagnostics")
    bound = bound_picture(told.get("bounds", [])) if snapshot.kind == ModelSnapshot.Kind.REFIT else None
    return VersionPage(
        snapshot=snapshot,
        left_out=left_out(snapshot),
        remarks=remarks.about(snapshot),
        settings=explained(ModelSettings.of(snapshot.settings)),
        warnings=[str(warning) for warning in told.get("warnings", [])],
        mixing=told.get("refined", {}),
        pictures=[bound] if bound else [],
        parts=parts_of(told.get("seconds", {})),
        before=siblings.filter(number__lt=snapshot.number).first(),
        after=siblings.filter(number__gt=snapshot.number).last(),
        shown=snapshot == shown_of(state),
        pinned=snapshot == remarks.pinned,
        knows_the_erased=snapshot.pk in remarks.knowing_the_erased,
    )


def parts_of(seconds: dict[str, float]) -> list[Part]:
    """The parts of an update in their order, whatever order the database gives them back in."""
    longest = max(seconds.values(), default=0.0)
    shares = {name: 100 * value / longest if longest > 0 else 0.0 for name, value in seconds.items()}
    return [Part(str(words), seconds[name], round(shares[name], 1)) for name, words in PARTS.items() if name in seconds]


def comparison(older: ModelSnapshot, newer: ModelSnapshot, number: int = 1) -> Comparison:
    """Which items moved, the largest moves first, and which came or went."""
    before, after = _scores_of(older), _scores_of(newer)
    both = [Move(score.item, before[pk], score) for pk, score in after.items() if pk in before]
    moved = sorted((move for move in both if move.ranks), key=lambda move: (-abs(move.ranks), -abs(move.score)))
    return Comparison(
        older=older,
        newer=newer,
        between=between(older, newer),
        page=Paginator(moved, MOVES_PER_PAGE).get_page(number),
        still=len(both) - len(moved),
        came=[score.item for pk, score in after.items() if pk not in before],
        went=[score.item for pk, score in before.items() if pk not in after],
        numbers=list(_numbers(older.project)),
    )


def between(older: ModelSnapshot, newer: ModelSnapshot) -> Between:
    """How many judgements were learned from one to the other, and which settings are not the same."""
    passed = ModelSnapshot.objects.filter(project=older.project, number__gt=older.number, number__lte=newer.number)
    before, after = ModelSettings.of(older.settings), ModelSettings.of(newer.settings)
    return Between(
        learned=newer.included - older.included,
        refits=passed.filter(kind=ModelSnapshot.Kind.REFIT).count(),
        changed=[row for row in explained(after, instead_of=before) if row.value != row.before],
    )


def _scores_of(snapshot: ModelSnapshot) -> dict[int, ConsensusScore]:
    return {score.item_id: score for score in snapshot.scores.select_related("item").order_by("rank")}


def _numbers(project: Project) -> Iterable[int]:
    return ModelSnapshot.objects.filter(project=project).values_list("number", flat=True)


def _state_of(project: Project) -> UpdateState:
    pointed = UpdateState.objects.select_related("current", "pinned")
    return pointed.filter(Q(project=project)).first() or UpdateState()
