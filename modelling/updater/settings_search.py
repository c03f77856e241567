"""The settings search: cross-validate a short list of candidate model settings in the background.

A search is a job. Each time the updater claims it, it evaluates one candidate, stores the result and releases the
lease, so that updates never wait for more than one candidate, and a killed search continues where it stopped.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import Any

import numpy as np
from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.translation import gettext_noop
from numpy.typing import NDArray

from annotation.models import Project, User
from annotation.services import audit
from modelling.crowdgppl import PairwiseLabels, WeightedSum
from modelling.features.sentences import has_sentence_vectors
from modelling.features.text import TextFeatures
from modelling.models import SettingsSearch
from modelling.training.evaluation.held_out import assign_groups, group_splits
from modelling.training.evaluation.scoreboard import LabelMetrics, label_metrics
from modelling.training.executors import get_executor
from modelling.training.fit import build_estimator, numeric_columns
from modelling.training.inputs import Inputs, get_read_point, read_inputs
from modelling.training.settings import (
    NEAR,
    NONE,
    NUMERIC,
    SENTENCES,
    SURFACE,
    TEXTS,
    VECTORS,
    InvalidSettings,
    ModelSettings,
    item_kernel,
)
from modelling.training.size import check_size, has_too_many_items
from modelling.updater import leases
from modelling.updater.jobs import claim_job, running
from modelling.updater.long_updates import LongUpdates, fit_takes_long

FOLDS = 4
COMPONENTS = {
    0: gettext_noop("one ranking for everyone"),
    3: gettext_noop("at most 3 components"),
    20: gettext_noop("at most 20 components"),
}
KERNEL_NAMES = {
    TEXTS: gettext_noop("similarity by texts"),
    SENTENCES: gettext_noop("similarity by texts and whole sentences"),
    NEAR: gettext_noop("similarity by texts, only between items of similar form"),
    SURFACE: gettext_noop("similarity by form only"),
    VECTORS: gettext_noop("similarity by word vectors only"),
    NUMERIC: gettext_noop("similarity by imported features only"),
    NONE: gettext_noop("no similarity between items"),
}
State = SettingsSearch.State

BY_GROUP = gettext_noop(
    "4-fold cross-validation by item group: each quarter of the groups was held out and its judgements were predicted."
)
AT_RANDOM = gettext_noop(
    "The items have fewer than two groups, so they were split into four parts at random. "
    "Judgements between parts were left out."
)
NOT_ENOUGH = gettext_noop(
    "There are too few judgements for cross-validation: none compares two items of the same part. "
    "Start the search again when there are more."
)


class NotEnoughJudgements(Exception):
    """There are too few judgements for cross-validation."""


@dataclass(frozen=True)
class SettingsCandidate:
    """Settings to evaluate, with a name for the page."""

    name: str
    settings: ModelSettings


@dataclass(frozen=True, eq=False)
class SearchData:
    """The data that candidates are evaluated on, read once per search."""

    inputs: Inputs
    blocks: dict[str, tuple[int, int]]
    X_items: NDArray[np.float64]
    groups: NDArray[np.int64]
    description: str

    def has_block(self, name: str) -> bool:
        """Whether the items have this block of features."""
        start, stop = self.blocks.get(name, (0, 0))
        return stop > start


def request_search(*, project: Project, user: User | None) -> bool:
    """Queue a search; False if one is already waiting or running."""
    try:
        with transaction.atomic():
            SettingsSearch.objects.create(project=project, requested_by=user)
            audit(project, user, "asked for a search for settings")
    except IntegrityError:
        return False
    return True


def get_candidate_settings(project: Project, name: str) -> ModelSettings | None:
    """The settings of a named candidate in the project's last finished search; None if there is no such candidate."""
    last = SettingsSearch.objects.filter(project=project, state=State.DONE).first()
    rows = [row for row in last.table if row["name"] == name] if last else []
    return ModelSettings.from_dict(rows[0]["settings"]) if rows else None


def search_one(owner: str, long_updates: LongUpdates | None = None) -> bool:
    """Evaluate one candidate of one search, in a child process if its fits take long; False if there is no search."""
    busy = long_updates is not None and long_updates.busy
    search = claim_job(SettingsSearch, owner, lambda job: not (busy and fit_takes_long(job.project)))
    if search is None:
        return False
    if long_updates is not None and fit_takes_long(search.project):
        long_updates.start(search, search.project, "--search")
    else:
        evaluate_claimed(search)
    return True


def evaluate_claimed(search: SettingsSearch) -> None:
    """Evaluate one candidate of a leased search."""
    with running(search, _describe_failure):
        _evaluate_next(search)


def _describe_failure(error: Exception) -> str:
    if isinstance(error, NotEnoughJudgements):
        return NOT_ENOUGH
    return str(error) if isinstance(error, InvalidSettings) else ""


def _evaluate_next(search: SettingsSearch) -> None:
    current = ModelSettings.from_dict(search.project.model_settings)
    revision = get_read_point(search.project).inputs_revision
    data = load_search_data(search.pk, search.requested_at, revision)
    check_size(len(data.inputs.items), current)
    candidates = list(build_candidates(current, data))
    # Results for other judgements, or relative to other settings, cannot be compared with new ones.
    basis = {"data_hash": data.inputs.data_hash, "settings": current.as_dict()}
    done = search.table if search.progress.items() >= basis.items() else []
    left = [candidate for candidate in candidates if candidate.name not in {row["name"] for row in done}]
    if left:
        done = [*done, candidate_row(left[0], evaluate_candidate(left[0], data))]
    table = sorted(done, key=lambda row: row["loss"])
    if len(left) > 1:
        progress = {"done": len(done), "of": len(candidates), **basis}
        leases.release(search, table=table, progress=progress, message=data.description)
        return
    ended = {"state": State.DONE, "ended_at": timezone.now(), "progress": {}}
    leases.release(search, table=table, winner=table[0]["settings"], message=data.description, **ended)
    load_search_data.cache_clear()


@lru_cache(maxsize=1)
def load_search_data(search_pk: int, requested_at: datetime, inputs_revision: int) -> SearchData:
    """A search's judgements and features, cached until an argument changes (erasure changes the revision)."""
    project = SettingsSearch.objects.select_related("project").get(pk=search_pk, requested_at=requested_at).project
    inputs = read_inputs(project)
    if not len(inputs.labels):
        raise NotEnoughJudgements
    texts, numbers = [item.text for item in inputs.items], numeric_columns(inputs)
    features = TextFeatures(has_sentence_vectors()).fit(texts, numeric=numbers)
    groups, description = split_items(inputs)
    X_items = features.transform(texts, numeric=numbers)
    return SearchData(inputs, dict(features.blocks), X_items, groups, description)


def split_items(inputs: Inputs) -> tuple[NDArray[np.int64], str]:
    """The group of each item for cross-validation, and a description of the split."""
    names, groups = np.unique([item.group for item in inputs.items], return_inverse=True)
    if len(names) >= 2:
        return groups, BY_GROUP
    return np.random.default_rng(0).permutation(len(inputs.items)) % FOLDS, AT_RANDOM


def build_candidates(current: ModelSettings, data: SearchData) -> Iterator[SettingsCandidate]:
    """The current settings, and variants with another kernel or number of components."""
    yield SettingsCandidate(gettext_noop("current settings"), current)
    for kernel, name in KERNEL_NAMES.items():
        has_columns = kernel not in (NUMERIC, SENTENCES) or data.has_block(kernel)
        candidate = replace(current, kernel=kernel)
        if kernel != current.kernel and has_columns and not has_too_many_items(len(data.inputs.items), candidate):
            yield SettingsCandidate(name, candidate)
    for count, name in COMPONENTS.items():
        if count != current.n_components:
            yield SettingsCandidate(name, replace(current, n_components=count))


def evaluate_candidate(candidate: SettingsCandidate, data: SearchData) -> list[LabelMetrics]:
    """A candidate's metrics on the labels of each held-out part."""
    labels, kernel, executor = data.inputs.labels, item_kernel(candidate.settings.kernel, data.blocks), get_executor()
    splits = group_splits(labels, assign_groups(data.groups, labels, FOLDS))
    folds = ((labels.take(split.train), labels.take(split.test)) for split in splits)
    sizes = {"n_items": len(data.inputs.items), "n_users": len(data.inputs.workers)}
    X_items = executor.share(data.X_items if kernel else None)
    parts = list(executor.stream(evaluate_fold, folds, X_items, candidate.settings, kernel, sizes))
    if not parts:
        raise NotEnoughJudgements
    return parts


def evaluate_fold(
    fold: tuple[PairwiseLabels, PairwiseLabels],
    X_items: NDArray[np.float64] | None,
    settings: ModelSettings,
    kernel: WeightedSum | None,
    sizes: dict[str, int],
) -> LabelMetrics:
    """Fit to a fold's training labels and score the predictions of its test labels."""
    train, test = fold
    model = build_estimator(settings, kernel).fit(train, X_items=X_items, **sizes)
    return label_metrics(model.predict_proba(test.u, test.a, test.b), test.y)


def candidate_row(candidate: SettingsCandidate, parts: list[LabelMetrics]) -> dict[str, Any]:
    """One candidate's result, as stored with the search."""
    correct = np.concatenate([part.correct[part.decided] for part in parts])
    return {
        "name": candidate.name,
        "settings": candidate.settings.as_dict(),
        "loss": float(np.concatenate([part.log_loss for part in parts]).mean()),
        "accuracy": float(correct.mean()) if len(correct) else None,  # None if all labels are ties
        "losses": [float(part.log_loss.mean()) for part in parts],
    }
