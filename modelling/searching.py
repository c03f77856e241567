"""“Choose for me”: a few settings are tried on groups of items held back, one after the other, by the updater.

A search is a row. The updater takes it when no project is behind, tries one candidate, writes down what came of it and
lets go, so that updates never wait for more than one candidate. A killed updater's search is taken up where it was.
"""

import logging
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
from modelling.crowdgppl.selection import Candidate, Score, Starts, Whitenings, select
from modelling.features import TextFeatures, default_item_kernel
from modelling.fitting import numeric_columns
from modelling.inputs import Inputs, moment_of, read_inputs
from modelling.jobs import WENT_WRONG, LostJob, alive, claim, give_up, let_go
from modelling.model_settings import (
    LIMITS,
    NEAR,
    NONE,
    NUMERIC,
    SURFACE,
    TEXTS,
    VECTORS,
    ModelSettings,
    Unusable,
    item_kernel,
)
from modelling.models import SettingsSearch

log = logging.getLogger("concord.searching")

PARTS = 4
COMPONENTS = {
    0: gettext_noop("one ranking for all"),
    3: gettext_noop("3 components"),
    20: gettext_noop("20 components"),
}
KERNEL_NAMES = {
    TEXTS: gettext_noop("alike by their texts"),
    NEAR: gettext_noop("alike by their texts, if of nearly the same form"),
    SURFACE: gettext_noop("alike by form only"),
    VECTORS: gettext_noop("alike by word vectors only"),
    NUMERIC: gettext_noop("alike by their own numbers only"),
    NONE: gettext_noop("every item alone"),
}
FACTOR = 4.0  # between the priors that are tried
PRIORS = {
    gettext_noop("tastes that differ less"): ("personal_variance", 1 / FACTOR),
    gettext_noop("tastes that differ more"): ("personal_variance", FACTOR),
    gettext_noop("a consensus of less spread"): ("consensus_variance", 1 / FACTOR),
    gettext_noop("a consensus of more spread"): ("consensus_variance", FACTOR),
}
TYPICAL_VARIANCE = 1.0  # of tastes, where a project leaves it to be chosen at each fit
State = SettingsSearch.State

BY_GROUP = gettext_noop("Whole groups of items were held back, a quarter at a time, and their judgements predicted.")
BY_CHANCE = gettext_noop(
    "The items have fewer than two groups, so they were dealt into four at random. "
    "Judgements between two of them were left out."
)
TOO_LITTLE = gettext_noop(
    "There are too few judgements to hold some back: no judgement compares two items of one part. "
    "Ask again when there are more."
)


class TooLittle(Exception):
    """The judgements do not suffice to hold some back."""


@dataclass(frozen=True)
class Trial:
    """One set of settings with a name for people."""

    name: str
    settings: ModelSettings


@dataclass(frozen=True, eq=False)
class Bench:
    """Everything a candidate is tried on, read once for a search."""

    inputs: Inputs
    features: NDArray[np.float64]
    blocks: dict[str, tuple[int, int]]
    groups: NDArray[np.int64]
    words: str
    whitenings: Whitenings
    alone: Whitenings
    starts: Starts


def ask(*, project: Project, user: User | None) -> bool:
    """A search waits for the updater; False where one waits or runs already."""
    try:
        with transaction.atomic():
            SettingsSearch.objects.create(project=project, asked_by=user)
            audit(project, user, "asked for a search for settings")
    except IntegrityError:
        return False
    return True


def settings_of(project: Project, name: str) -> ModelSettings | None:
    """The settings of a candidate of the project's last search that ended."""
    last = SettingsSearch.objects.filter(project=project, state=State.DONE).first()
    rows = [row for row in last.table if row["name"] == name] if last else []
    return ModelSettings.of(rows[0]["settings"]) if rows else None


def search_one(owner: str) -> bool:
    """Tries one candidate of one search; False where nobody has asked."""
    search = claim(SettingsSearch, owner)
    if search is None:
        return False
    try:
        _try_next(search)
    except LostJob:
        log.warning("another updater took the search over", extra={"project": search.project.slug})
    except TooLittle:
        give_up(search, TOO_LITTLE)
    except Unusable as refusal:
        give_up(search, str(refusal))
    except Exception:  # the boundary of a background job: say it and go on with the others
        log.exception("the search failed", extra={"project": search.project.slug})
        give_up(search, WENT_WRONG)
    return True


def _try_next(search: SettingsSearch) -> None:
    now = ModelSettings.of(search.project.model_settings)
    bench = bench_of(search.pk, search.asked_at, now.n_inducing_items, moment_of(search.project).inputs_revision)
    trials = list(trials_for(now, bench))
    # What was tried on other judgements, or beside other settings, cannot be compared with what is tried now.
    ground = {"data_hash": bench.inputs.data_hash, "settings": now.as_dict()}
    done = search.table if search.progress.items() >= ground.items() else []
    left = [trial for trial in trials if trial.name not in {row["name"] for row in done}]
    if left:
        with alive():
            done = [*done, row_of(left[0], score(left[0], bench))]
    table = sorted(done, key=lambda row: row["loss"])
    if len(left) > 1:
        progress = {"done": len(done), "of": len(trials), **ground}
        let_go(search, table=table, progress=progress, words=bench.words)
        return
    ended = {"state": State.DONE, "ended_at": timezone.now(), "progress": {}}
    let_go(search, table=table, winner=table[0]["settings"], words=bench.words, **ended)
    bench_of.cache_clear()


@lru_cache(maxsize=1)
def bench_of(search_pk: int, asked_at: datetime, n_inducing_items: int, inputs_revision: int) -> Bench:
    """The judgements and features of a search, kept while its candidates are tried and nobody is erased."""
    project = SettingsSearch.objects.select_related("project").get(pk=search_pk, asked_at=asked_at).project
    inputs = read_inputs(project)
    if not len(inputs.labels):
        raise TooLittle
    texts, numbers = [item.text for item in inputs.items], numeric_columns(inputs)
    features = TextFeatures().fit(texts, numeric=numbers)
    X_items = features.transform(texts, numeric=numbers)
    groups, words = groups_of(inputs)
    whitenings = Whitenings.of(X_items, largest=n_inducing_items)
    alone = Whitenings.of(None, len(inputs.items), largest=n_inducing_items)
    return Bench(inputs, X_items, dict(features.blocks), groups, words, whitenings, alone, Starts())


def groups_of(inputs: Inputs) -> tuple[NDArray[np.int64], str]:
    """The group of each item, and a sentence on how items are held back."""
    names, groups = np.unique([item.group for item in inputs.items], return_inverse=True)
    if len(names) >= 2:
        return groups, BY_GROUP
    dealt = np.random.default_rng(0).permutation(len(inputs.items)) % PARTS
    return dealt, BY_CHANCE


def trials_for(now: ModelSettings, bench: Bench) -> Iterator[Trial]:
    """What the project has now, each other kernel, other numbers of components, other priors: a short list."""
    yield Trial(gettext_noop("as it is now"), now)
    for kernel, name in KERNEL_NAMES.items():
        has_columns = kernel != NUMERIC or numeric_columns(bench.inputs) is not None
        if kernel != now.kernel and has_columns:
            yield Trial(name, replace(now, kernel=kernel))
    for count, name in COMPONENTS.items():
        if count != now.n_components:
            yield Trial(name, replace(now, n_components=count))
    for name, (setting, factor) in PRIORS.items():
        expected = (getattr(now, setting) or TYPICAL_VARIANCE) * factor
        low, high = LIMITS[setting]
        if low <= expected <= high:
            yield Trial(name, ModelSettings.of({**now.as_dict(), setting: expected}))


def score(trial: Trial, bench: Bench) -> Score:
    """What this trial loses on the judgements held back."""
    settings, kernel = trial.settings, item_kernel(trial.settings.kernel, bench.blocks)
    candidate = Candidate(
        trial.name,
        kernel or default_item_kernel(bench.blocks),  # never asked where every item stands alone
        n_components=settings.n_components,
        n_inducing_items=settings.n_inducing_items,
        personal_variance=settings.personal_variance or TYPICAL_VARIANCE,
        t_prior=settings.consensus_prior,
    )
    whitenings = bench.whitenings if kernel else bench.alone
    labels, people = bench.inputs.labels, len(bench.inputs.workers)
    try:
        asked: dict[str, Any] = {"n_users": people, "n_parts": PARTS, "seed": settings.seed, "starts": bench.starts}
        chosen = select(labels, bench.groups, [candidate], whitenings, **asked)
    except ValueError as refusal:
        raise TooLittle from refusal
    return chosen.best


def row_of(trial: Trial, found: Score) -> dict[str, Any]:
    """A line of the table, plain enough for JSON."""
    return {
        "name": trial.name,
        "settings": trial.settings.as_dict(),
        "loss": float(found.loss),
        "accuracy": float(found.accuracy) if np.isfinite(found.accuracy) else None,  # none where all are ties
        "losses": [float(loss) for loss in found.losses],
    }
