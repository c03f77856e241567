"""Checks that every snapshot is whole and can be explained: its arrays, its scores, its counts, its place in the log.

`rebuild` goes further: it learns again what a version learned, from the log, its settings and its seed.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import numpy as np

from annotation.models import Item, Project, Worker
from modelling import arrays
from modelling.inputs import Moment, data_hash_again, read_inputs_again, read_news
from modelling.learners import Learner
from modelling.model_settings import ModelSettings, Unusable
from modelling.models import ModelSnapshot, UpdateState
from modelling.snapshots import CODE_VERSION, fitted_from, ranked_scores

SAME_SCORE = 1e-9  # the same sums, perhaps in another order on another machine
NOT_FROM_HERE = "was not learned from the judgements and texts that are here now."
OTHER_NUMBERS = "learning it again gives other numbers."
OWN_ANSWERS = "workers' answers about themselves were changed or erased after it, so it cannot be learned again."
OWN_NUMBERS = "the items' own numbers were changed after it, so it cannot be learned again."
NO_PARENT = "the version before it could not be learned again."


class NotAgain(Exception):
    """A version cannot be learned again; the message says why."""


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
    yield from _broken_settings(snapshot)


def _broken_settings(snapshot: ModelSnapshot) -> Iterator[str]:
    try:
        if ModelSettings.of(snapshot.settings).seed != snapshot.seed:
            yield f"version {snapshot.number} names two seeds."
    except Unusable as refusal:
        yield f"version {snapshot.number} cannot have had its settings. {refusal}"


def _broken_arrays(snapshot: ModelSnapshot) -> Iterator[str]:
    """Whether the arrays are those that were written, give the scores, and the log gives the data hash again."""
    try:
        stored = arrays.load(snapshot.project, snapshot.checksum)
        if snapshot.code_version == CODE_VERSION and _scores_differ(snapshot, stored):
            yield f"the scores of version {snapshot.number} are not those of its arrays."
    except arrays.Damaged:
        yield f"the arrays of version {snapshot.number} are missing or damaged."
        return
    if not _is_of_this_log(snapshot, stored, _items_in(stored)):
        yield f"version {snapshot.number} {NOT_FROM_HERE}"


def _scores_differ(snapshot: ModelSnapshot, stored: arrays.Arrays) -> bool:
    fitted = fitted_from(stored)
    mean, sd, _ = ranked_scores(fitted.model, fitted.ranked, np.random.default_rng(snapshot.seed))
    told = np.column_stack([fitted.item_ids[fitted.ranked], mean, sd])
    rows = np.array(list(snapshot.scores.order_by("item_id").values_list("item_id", "mean", "sd"))).reshape(-1, 3)
    same = told.shape == rows.shape and np.allclose(told[np.argsort(told[:, 0])], rows, rtol=0, atol=SAME_SCORE)
    return not same


def _items_in(stored: arrays.Arrays) -> list[Item]:
    """The items of these arrays, in their order, switched on as they were then; without those that are gone."""
    items = Item.objects.in_bulk(stored["item_ids"].tolist())
    ranked = set(stored["item_ids"][stored["ranked"]].tolist())
    for item in items.values():
        item.active = item.pk in ranked
    return [items[pk] for pk in stored["item_ids"].tolist() if pk in items]


def _is_of_this_log(snapshot: ModelSnapshot, stored: arrays.Arrays, items: list[Item]) -> bool:
    return len(items) == len(stored["item_ids"]) and data_hash_again(snapshot, items) == snapshot.data_hash


def rebuild(project: Project, newest: int) -> Iterator[tuple[ModelSnapshot, str]]:
    """Each of the newest versions with what is wrong with it once it is learned again; empty if nothing is.

    A refit is fitted again; a step goes on from the version before it. Versions whose arrays were thrown away are left
    out, and the refit that the first of the others began from is taken as it is.
    """
    versions = ModelSnapshot.objects.filter(project=project).select_related("parent", "project")
    wanted = sorted(versions.filter(pruned_at=None).order_by("-number")[:newest], key=lambda snapshot: snapshot.number)
    if not wanted:
        return
    refit = versions.filter(kind=ModelSnapshot.Kind.REFIT, number__lte=wanted[0].number).latest()
    replay = Replay(refit)
    for snapshot in versions.filter(number__gte=min(refit.number + 1, wanted[0].number)).order_by("number"):
        problem = replay.take(snapshot)
        if snapshot in wanted:
            yield snapshot, problem


class Replay:
    """Learns version after version again, beginning with a refit as it was published."""

    def __init__(self, refit: ModelSnapshot) -> None:
        self.learner: Learner | None = None
        self.checksum = refit.checksum
        with suppress(arrays.Damaged):
            self.learner = Learner.stored_in(arrays.load(refit.project, refit.checksum))

    def take(self, snapshot: ModelSnapshot) -> str:
        """This version's models are here now; says what differs from the published ones."""
        try:
            self.learner = self._learned_again(snapshot)
        except NotAgain as reason:
            self.learner = None
            return str(reason)
        self.checksum = arrays.checksum_of_arrays(self.learner.arrays())
        return "" if self.checksum == snapshot.checksum else OTHER_NUMBERS

    def _learned_again(self, snapshot: ModelSnapshot) -> Learner:
        if snapshot.code_version != CODE_VERSION:
            raise NotAgain(f"it was made by code version {snapshot.code_version}, this is {CODE_VERSION}.")
        if snapshot.kind == ModelSnapshot.Kind.REFIT:
            return _fitted_again(snapshot)
        if self.learner is None or snapshot.parent is None or self.checksum != snapshot.parent.checksum:
            raise NotAgain(NO_PARENT)
        fitted, moment = self.learner.fitted, Moment(snapshot.last_sequence, snapshot.inputs_revision)
        news = read_news(snapshot.parent, moment, fitted.item_ids, fitted.worker_ids)
        return self.learner.gone_on(news, ModelSettings.of(snapshot.settings))


def _fitted_again(snapshot: ModelSnapshot) -> Learner:
    try:
        return _fitted_from_log(snapshot, arrays.load(snapshot.project, snapshot.checksum))
    except arrays.Damaged:
        raise NotAgain("its arrays are missing or damaged.") from None
    except Unusable as refusal:
        raise NotAgain(str(refusal)) from None


def _fitted_from_log(snapshot: ModelSnapshot, stored: arrays.Arrays) -> Learner:
    """A refit's models, from the log, its settings and its seed; only whose rows they are is read from its arrays."""
    items, workers = _items_in(stored), Worker.objects.in_bulk(stored["worker_ids"].tolist())
    if not _is_of_this_log(snapshot, stored, items):
        raise NotAgain(f"it {NOT_FROM_HERE}")
    inputs = read_inputs_again(snapshot, items, [workers[pk] for pk in stored["worker_ids"].tolist()])
    settings = replace(ModelSettings.of(snapshot.settings), seed=snapshot.seed)
    learner = Learner.from_scratch(inputs, settings, lambda *_: None)
    own_numbers = learner.fitted.features.to_state()["knots.numeric"]
    if not np.array_equal(own_numbers, stored["features.knots.numeric"]):
        raise NotAgain(OWN_NUMBERS)
    none, known = np.zeros((0, 0)), learner.fitted.model.X_users_
    if not np.array_equal(none if known is None else known, stored.get("model.traits_X", none)):
        raise NotAgain(OWN_ANSWERS)
    return learner
