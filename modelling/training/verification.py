"""Check snapshots for `manage.py verify`: arrays, scores, judgement counts, settings and event sequences.

`rebuild` goes further and fits versions again from the log, their settings and their seeds.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import numpy as np

from annotation.models import Item, Project, Worker
from modelling.models import ModelSnapshot, UpdateState
from modelling.training.inputs import ReadPoint, read_delta, read_snapshot_inputs, recompute_data_hash
from modelling.training.settings import InvalidSettings, ModelSettings
from modelling.training.snapshots import CODE_VERSION, FittedModel, ranked_scores
from modelling.training.storage import array_store
from modelling.training.training_state import TrainingState

SCORE_TOLERANCE = 1e-9  # other machines may sum in another order
OTHER_LOG = "was not fitted to the judgements and texts in this database."
OTHER_NUMBERS = "refitting it gives different numbers."
TRAITS_CHANGED = "workers' questionnaire answers were changed or erased after it, so it cannot be fitted again."
FEATURES_CHANGED = "the items' numeric columns were changed after it, so it cannot be fitted again."
NO_PARENT = "the version before it could not be fitted again."


class CannotRebuild(Exception):
    """A version cannot be fitted again. The message says why."""


def find_problems(project: Project) -> Iterator[str]:
    """Yield one sentence for each problem found, naming the version."""
    snapshots = ModelSnapshot.objects.filter(project=project).select_related("parent", "project")
    for snapshot in snapshots.order_by("number"):
        yield from _find_snapshot_problems(snapshot)
    state = UpdateState.objects.filter(project=project).select_related("current").first()
    if state and state.current and state.current.last_sequence > state.done_sequence:
        yield f"{state.current} includes events that the updater has not read."


def _find_snapshot_problems(snapshot: ModelSnapshot) -> Iterator[str]:
    if snapshot.pruned_at is None:
        yield from _find_array_problems(snapshot)
    ranks = list(snapshot.scores.order_by("rank").values_list("rank", flat=True))
    if ranks != list(range(1, len(ranks) + 1)):
        yield f"the scores of version {snapshot.number} are incomplete."
    total = snapshot.included + sum(snapshot.excluded.values())
    events = snapshot.project.judgements.filter(sequence__lte=snapshot.last_sequence).count()
    if total != events:
        yield f"version {snapshot.number} accounts for {total} of {events} judgements."
    yield from _find_settings_problems(snapshot)


def _find_settings_problems(snapshot: ModelSnapshot) -> Iterator[str]:
    try:
        if ModelSettings.from_dict(snapshot.settings).seed != snapshot.seed:
            yield f"version {snapshot.number} has two different seeds."
    except InvalidSettings as error:
        yield f"version {snapshot.number} has invalid settings. {error}"


def _find_array_problems(snapshot: ModelSnapshot) -> Iterator[str]:
    """Check that arrays and labels are intact, and that they and the log reproduce the scores and the data hash."""
    try:
        arrays = array_store.load(snapshot.project, snapshot.checksum)
        if snapshot.code_version == CODE_VERSION:
            fitted = FittedModel.from_arrays(arrays, snapshot.number)
            if _scores_differ(snapshot, fitted):
                yield f"the scores of version {snapshot.number} do not match its arrays."
            if fitted.store.find_damage():
                yield f"the workers' labels of version {snapshot.number} are missing or damaged."
    except array_store.DamagedArrays:
        yield f"the arrays of version {snapshot.number} are missing or damaged."
        return
    if not _matches_log(snapshot, arrays, _read_items(arrays)):
        yield f"version {snapshot.number} {OTHER_LOG}"


def _scores_differ(snapshot: ModelSnapshot, fitted: FittedModel) -> bool:
    mean, sd, _ = ranked_scores(fitted.model, fitted.ranked, np.random.default_rng(snapshot.seed))
    computed = np.column_stack([fitted.item_ids[fitted.ranked], mean, sd])
    computed = computed[np.argsort(computed[:, 0])]
    stored = np.array(list(snapshot.scores.order_by("item_id").values_list("item_id", "mean", "sd"))).reshape(-1, 3)
    return computed.shape != stored.shape or not np.allclose(computed, stored, rtol=0, atol=SCORE_TOLERANCE)


def _read_items(arrays: array_store.Arrays) -> list[Item]:
    """The items of these arrays that still exist, in the same order, each as active or inactive as it was then."""
    items = Item.objects.in_bulk(arrays["item_ids"].tolist())
    ranked = set(arrays["item_ids"][arrays["ranked"]].tolist())
    for item in items.values():
        item.active = item.pk in ranked
    return [items[pk] for pk in arrays["item_ids"].tolist() if pk in items]


def _matches_log(snapshot: ModelSnapshot, arrays: array_store.Arrays, items: list[Item]) -> bool:
    return len(items) == len(arrays["item_ids"]) and recompute_data_hash(snapshot, items) == snapshot.data_hash


# Rebuilding ---------------------------------------------------------------------------------------------------------


def rebuild(project: Project, newest: int) -> Iterator[tuple[ModelSnapshot, str]]:
    """Fit the newest versions again; yield each with its problem, or an empty string.

    Refits are fitted again, and steps continue from the rebuilt version before them. Pruned versions are not reported.
    The refit before the first version is loaded from its arrays.
    """
    versions = ModelSnapshot.objects.filter(project=project).select_related("parent", "project")
    wanted = sorted(versions.filter(pruned_at=None).order_by("-number")[:newest], key=lambda snapshot: snapshot.number)
    if not wanted:
        return
    refit = versions.filter(kind=ModelSnapshot.Kind.REFIT, number__lte=wanted[0].number).latest()
    replay = Replay(refit)
    for snapshot in versions.filter(number__gte=min(refit.number + 1, wanted[0].number)).order_by("number"):
        problem = replay.rebuild(snapshot)
        if snapshot in wanted:
            yield snapshot, problem


class Replay:
    """Rebuilds one version after another, starting with a published refit."""

    def __init__(self, refit: ModelSnapshot) -> None:
        self.state: TrainingState | None = None
        self.checksum = refit.checksum
        with suppress(array_store.DamagedArrays):
            self.state = TrainingState.from_arrays(array_store.load(refit.project, refit.checksum), refit.number)

    def rebuild(self, snapshot: ModelSnapshot) -> str:
        """Rebuild the next version; return how it differs from the published one, or an empty string."""
        try:
            self.state = self._rebuild(snapshot)
        except CannotRebuild as reason:
            self.state = None
            return str(reason)
        self.checksum = array_store.arrays_checksum(self.state.to_arrays())
        return "" if self.checksum == snapshot.checksum else OTHER_NUMBERS

    def _rebuild(self, snapshot: ModelSnapshot) -> TrainingState:
        if snapshot.code_version != CODE_VERSION:
            raise CannotRebuild(f"it was made by code version {snapshot.code_version}; this is {CODE_VERSION}.")
        if snapshot.kind == ModelSnapshot.Kind.REFIT:
            return _refit(snapshot)
        if self.state is None or snapshot.parent is None or self.checksum != snapshot.parent.checksum:
            raise CannotRebuild(NO_PARENT)
        fitted, read_point = self.state.fitted, ReadPoint(snapshot.last_sequence, snapshot.inputs_revision)
        delta = read_delta(snapshot.parent, read_point, fitted.item_ids, fitted.worker_ids)
        return self.state.advance(delta)


def _refit(snapshot: ModelSnapshot) -> TrainingState:
    try:
        return _fit_from_log(snapshot, array_store.load(snapshot.project, snapshot.checksum))
    except array_store.DamagedArrays:
        raise CannotRebuild("its arrays are missing or damaged.") from None
    except InvalidSettings as error:
        raise CannotRebuild(str(error)) from None


def _fit_from_log(snapshot: ModelSnapshot, arrays: array_store.Arrays) -> TrainingState:
    """Fit again from the log, the settings and the seed; only the primary keys are taken from the arrays."""
    items, workers = _read_items(arrays), Worker.objects.in_bulk(arrays["worker_ids"].tolist())
    if not _matches_log(snapshot, arrays, items):
        raise CannotRebuild(f"it {OTHER_LOG}")
    inputs = read_snapshot_inputs(snapshot, items, [workers[pk] for pk in arrays["worker_ids"].tolist()])
    settings = replace(ModelSettings.from_dict(snapshot.settings), seed=snapshot.seed)
    state = TrainingState.fit(inputs, settings, lambda *_: None)
    if not np.array_equal(state.fitted.features.to_state()["knots.numeric"], arrays["features.knots.numeric"]):
        raise CannotRebuild(FEATURES_CHANGED)
    none, known = np.zeros((0, 0)), state.fitted.model.X_users_
    if not np.array_equal(none if known is None else known, arrays.get("model.traits_X", none)):
        raise CannotRebuild(TRAITS_CHANGED)
    return state
