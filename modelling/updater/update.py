"""One update: new judgements become one new snapshot."""

import logging
import time
from collections.abc import Callable
from typing import Any

from django.db import connection, transaction
from django.db.models import Max

from annotation.models import Project
from annotation.storage import fault_injection
from modelling.findings.workers.versions import assess_version
from modelling.models import ModelSnapshot, ScoreboardEntry, UpdateState
from modelling.planning.live_gain import measure_new_pairs
from modelling.planning.stop_rule import evaluate_stop_rule, pause_if_certain
from modelling.planning.suggestions import refresh_suggestions
from modelling.training.evaluation.scoreboard import MetricSums, score_predictions, scoreboard_entries
from modelling.training.inputs import (
    IN_MEMORY,
    InputDelta,
    InputSummary,
    ReadPoint,
    get_read_point,
    read_delta,
    read_inputs,
    read_summary,
)
from modelling.training.settings import ModelSettings
from modelling.training.snapshots import (
    CODE_VERSION,
    FittedModel,
    Scores,
    build_snapshot,
    consensus_scores,
    current_snapshot,
)
from modelling.training.storage import array_store
from modelling.training.storage.label_store import UpdateRows
from modelling.training.training_state import TrainingState
from modelling.training.versions import clean_up_versions
from modelling.updater.failure_messages import FEW_ITEMS, NO_LABELS, NonFiniteScores
from modelling.updater.leases import LeaseLost, extend, extending
from modelling.updater.update_state import (
    ProgressReporter,
    ReportProgress,
    claim_project,
    finish_update,
    record_failure,
)

log = logging.getLogger("concord.updater")

MIN_ITEMS = 2
CACHED_STATES = 4  # projects whose last training state stays in memory
INSERT_SCORE = (
    "INSERT INTO modelling_consensusscore (snapshot_id, item_id, mean, sd, rank, rank_low, rank_high, top_probability,"
    " polarisation, judgements) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
)  # the order of the fields of Scores

_cache: dict[str, TrainingState] = {}  # by checksum; an update removes its state, so that a failed one leaves none


def update_one(
    owner: str,
    only: Project | None = None,
    report: ReportProgress | None = None,
    accept: Callable[[UpdateState], bool] = lambda state: True,
) -> ModelSnapshot | None:
    """Update one project that is due and passes `accept`; return None if there is none or the update failed."""
    state = claim_project(owner, only, accept)
    return None if state is None else update_claimed(state, report)


def update_claimed(state: UpdateState, report: ReportProgress | None = None) -> ModelSnapshot | None:
    """Update a leased project; None if the update failed or the lease was lost."""
    try:
        with extending(state):
            return update_project(state, report)
    except LeaseLost:
        log.warning("another updater took over", extra={"project": state.project.slug})
    except Exception as error:  # record any error and continue with other projects
        record_failure(state, error)
    return None


def update_project(state: UpdateState, report: ReportProgress | None = None) -> ModelSnapshot | None:
    """Read the judgements, fit outside any transaction, and publish the result.

    With too few items or no labels, store the position in the log and a message, and leave no current version.
    """
    project, timer, progress = state.project, StageTimer(), ProgressReporter(state, report=report)
    read = get_read_point(project)
    settings, parent = ModelSettings.from_dict(project.model_settings), current_snapshot(project)
    rows = UpdateRows(project.pk, next_number(project), fence=lambda: extend(state))
    rows.discard()
    stepped, predictions, pairing = step_from(parent, read, settings, timer, progress)
    source: InputDelta | InputSummary
    if stepped:
        source, trained = stepped
    else:
        progress.report("read")
        source = read_inputs(project, read) if read.sequence <= IN_MEMORY else read_summary(project, read)
        if message := find_missing_inputs(source):
            finish_update(state, read, current=None, message=message)
            clean_up_versions(project)
            return None
        trained = TrainingState.fit(source, settings, progress, rows)
    timer("learning")
    fault_injection.maybe_fail("after_fit")
    snapshot = build_snapshot(source, settings, trained.fitted, parent)
    snapshot.diagnostics["pairing"] = pairing
    scores = compute_scores(trained.fitted, settings.seed)
    snapshot.project = project
    snapshot.diagnostics["stopping"] = evaluate_stop_rule(snapshot, trained.fitted)
    timer("ranking")
    stored = array_store.save(project, trained.to_arrays(), base=snapshot.base)
    snapshot.checksum, snapshot.base, snapshot.number = stored.checksum, stored.base, rows.number
    rows.write(trained.fitted.store.unwritten_rows())
    timer("storing")
    snapshot.seconds, snapshot.diagnostics["seconds"] = timer.total, timer.seconds
    snapshot.diagnostics["cpu_seconds"] = timer.cpu_seconds
    fault_injection.maybe_fail("before_pointer")
    publish(state, snapshot, scores, predictions, read)
    trained.fitted.store.written(rows.number)
    fault_injection.maybe_fail("after_publish")
    refresh_suggestions(snapshot, trained.fitted)
    pause_if_certain(snapshot)
    assess_version(snapshot, trained.fitted)
    cache_training_state(snapshot, trained)
    clean_up_versions(project)
    return snapshot


def step_from(
    parent: ModelSnapshot | None,
    read: ReadPoint,
    settings: ModelSettings,
    timer: "StageTimer",
    progress: ProgressReporter,
) -> tuple[tuple[InputDelta, TrainingState] | None, dict[str, MetricSums], dict[str, Any]]:
    """Return the changes since the parent version with the state after a step, or None if a refit is needed.

    Also return how well the parent predicted the new labels, and the information gained from each policy's pairs.
    """
    known, predictions, pairing = load_training_state(parent), dict[str, MetricSums](), dict[str, Any]()
    if parent is None or known is None:
        return None, predictions, pairing
    try:
        delta = read_delta(parent, read, known.fitted.item_ids, known.fitted.worker_ids)
        timer("reading")
        predictions = score_predictions(known.fitted, known.baselines, delta)
        pairing = measure_new_pairs(known.fitted, parent.project, parent.last_sequence, read.sequence)
        timer("predicting")
        if can_step(parent, read, delta.counts.included, settings):
            return (delta, known.advance(delta, progress)), predictions, pairing
    except array_store.DamagedArrays as damage:
        log.warning("fitting again: %s", damage, extra={"project": parent.project.slug})
    return None, predictions, pairing


class StageTimer:
    """Measures the seconds spent in each stage of an update, for the version's page."""

    def __init__(self) -> None:
        self.last, self.cpu_start = time.perf_counter(), time.process_time()
        self.seconds: dict[str, float] = {}

    def __call__(self, stage: str) -> None:
        now = time.perf_counter()
        self.seconds[stage], self.last = round(now - self.last, 3), now

    @property
    def total(self) -> float:
        return round(sum(self.seconds.values()), 3)

    @property
    def cpu_seconds(self) -> float:
        """CPU seconds of this process since the start; unlike the stages' seconds, not inflated by a busy machine."""
        return round(time.process_time() - self.cpu_start, 3)


def load_training_state(parent: ModelSnapshot | None) -> TrainingState | None:
    """The training state of a version, from memory or from its arrays; None if those are damaged."""
    if parent is None:
        return None
    if parent.checksum in _cache:
        return _cache.pop(parent.checksum)
    try:
        return TrainingState.from_arrays(array_store.load(parent.project, parent.checksum), parent.number)
    except array_store.DamagedArrays:
        return None


def cache_training_state(snapshot: ModelSnapshot, trained: TrainingState) -> None:
    """Keep the state in memory, so that the project's next update need not read the arrays, and log the publication."""
    _cache[snapshot.checksum] = trained
    while len(_cache) > CACHED_STATES:
        del _cache[next(iter(_cache))]
    facts = {"project": snapshot.project.slug, "snapshot": snapshot.number, "sequence": snapshot.last_sequence}
    log.info("published", extra=facts)


def can_step(parent: ModelSnapshot, read: ReadPoint, included: int, settings: ModelSettings) -> bool:
    """Whether only judgements are new, and their total is still close to that of the last refit."""
    same = (parent.inputs_revision, parent.settings, parent.code_version)
    if same != (read.inputs_revision, settings.as_dict(), CODE_VERSION) or read.sequence == parent.last_sequence:
        return False
    refits = ModelSnapshot.objects.filter(project=parent.project, kind=ModelSnapshot.Kind.REFIT)
    last = refits.filter(number__lte=parent.number).latest()
    return last.included / settings.refit_growth < included < settings.refit_growth * last.included


def next_number(project: Project) -> int:
    """The number of the version that this update will publish."""
    newest = ModelSnapshot.objects.filter(project=project).aggregate(number=Max("number"))["number"]
    return (newest or 0) + 1


def find_missing_inputs(inputs: InputSummary) -> str:
    """A message if there are too few items or no labels; otherwise an empty string."""
    if sum(item.active for item in inputs.items) < MIN_ITEMS:
        return str(FEW_ITEMS)
    return "" if inputs.counts.included else str(NO_LABELS)


def compute_scores(fitted: FittedModel, seed: int) -> Scores:
    """The scores to publish; raise NonFiniteScores if one is not a finite number."""
    scores = consensus_scores(fitted, seed)
    if not scores.are_finite:
        raise NonFiniteScores("The fit gave a score that is not a finite number.")
    return scores


@transaction.atomic
def publish(
    state: UpdateState, snapshot: ModelSnapshot, scores: Scores, predictions: dict[str, MetricSums], read: ReadPoint
) -> None:
    """Store the snapshot, its scores and the pointer to it in one transaction."""
    if snapshot.number != next_number(snapshot.project):
        raise LeaseLost  # another updater has published
    snapshot.save(force_insert=True)
    insert_scores(snapshot, scores)
    ScoreboardEntry.objects.bulk_create(scoreboard_entries(snapshot, predictions))
    finish_update(state, read, current=snapshot)


def insert_scores(snapshot: ModelSnapshot, scores: Scores) -> None:
    """Insert all rows with `executemany`: ten times faster than model instances, so the write lock is held briefly."""
    with connection.cursor() as cursor:
        cursor.executemany(INSERT_SCORE, [(snapshot.pk, *row) for row in scores.rows()])
