"""Checks that every snapshot is whole and can be explained: its arrays, its scores, its counts, its place in the log.

`rebuild` goes further: it takes the refit before a version and learns again what that version learned.
"""

from collections.abc import Iterator

from annotation.models import Item, Project
from modelling import arrays
from modelling.inputs import Moment, data_hash_again, read_news
from modelling.learners import Learner
from modelling.models import ModelSnapshot, UpdateState
from modelling.snapshots import CODE_VERSION


def problems_of(project: Project) -> Iterator[str]:
    """One sentence for each thing that is wrong, naming the version."""
    for snapshot in (
        ModelSnapshot.objects.filter(project=project).select_related("parent", "project").order_by("number")
    ):
        yield from _broken(snapshot)
    state = UpdateState.objects.filter(project=project).select_related("current").first()
    if state and state.current and state.current.last_sequence > state.done_sequence:
        yield f"{state.current} claims to know events that the updater has not read."


def _broken(snapshot: ModelSnapshot) -> Iterator[str]:
    if snapshot.pruned_at is None:
        yield from _broken_arrays(snapshot)
    ranks = list(snapshot.scores.order_by("rank").values_list("rank", flat=True))
    if ranks != list(range(1, len(ranks) + 1)):
        yield f"the scores of version {snapshot.number} are not complete."
    total = snapshot.included + sum(snapshot.excluded.values())
    events = snapshot.project.judgements.filter(sequence__lte=snapshot.last_sequence).count()
    if total != events:
        yield f"version {snapshot.number} accounts for {total} of {events} judgements."


def _broken_arrays(snapshot: ModelSnapshot) -> Iterator[str]:
    """Whether the arrays are those that were written, and the data hash can be told again from the log."""
    try:
        item_ids = arrays.load(snapshot.project, snapshot.checksum)["item_ids"].tolist()
    except arrays.Damaged:
        yield f"the arrays of version {snapshot.number} are missing or damaged."
        return
    items = Item.objects.in_bulk(item_ids)
    if len(items) < len(item_ids) or data_hash_again(snapshot, (items[pk] for pk in item_ids)) != snapshot.data_hash:
        yield f"version {snapshot.number} was not learned from the judgements and texts that are here now."


def rebuild(project: Project, newest: int) -> Iterator[tuple[ModelSnapshot, str]]:
    """Each of the newest versions with what is wrong with it once it is learned again; empty if nothing is.

    A step is replayed from the refit before it, step by step, by its events and settings alone.
    """
    versions = ModelSnapshot.objects.filter(project=project).select_related("parent", "project")
    wanted = sorted(versions.order_by("-number")[:newest], key=lambda snapshot: snapshot.number)
    if not wanted:
        return
    refits = versions.filter(kind=ModelSnapshot.Kind.REFIT, number__lte=wanted[0].number)
    chain = versions.filter(number__gte=refits.latest().number).order_by("number")
    replay = Replay()
    for snapshot in chain:
        problem = replay.take(snapshot)
        if snapshot.number >= wanted[0].number:
            yield snapshot, problem


class Replay:
    """Learns version after version again, from the arrays of refits and from the log."""

    def __init__(self) -> None:
        self.learner: Learner | None = None
        self.checksum = ""

    def take(self, snapshot: ModelSnapshot) -> str:
        """This version's models are here now; says what differs from the published ones."""
        if snapshot.code_version != CODE_VERSION:
            return f"it was made by code version {snapshot.code_version}, this is {CODE_VERSION}."
        if snapshot.kind == ModelSnapshot.Kind.REFIT:
            return self._begin(snapshot)
        if self.learner is None or snapshot.parent is None or self.checksum != snapshot.parent.checksum:
            return "the version before it could not be learned again."
        fitted, moment = self.learner.fitted, Moment(snapshot.last_sequence, snapshot.inputs_revision)
        news = read_news(snapshot.parent, moment, fitted.item_ids, fitted.worker_ids)
        self.learner = self.learner.gone_on(news)
        self.checksum = arrays.checksum_of_arrays(self.learner.arrays())
        return "" if self.checksum == snapshot.checksum else "learning it again gives other numbers."

    def _begin(self, snapshot: ModelSnapshot) -> str:
        try:
            self.learner = Learner.stored_in(arrays.load(snapshot.project, snapshot.checksum))
        except arrays.Damaged:
            self.learner = None
            return "its arrays are missing or damaged."
        self.checksum = snapshot.checksum
        return ""
