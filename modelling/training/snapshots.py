"""Convert fitted models to snapshots (one row, one score per item, a set of arrays) and back."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from annotation.models import Item, Project
from modelling.engines import Engine, restore_engine
from modelling.features.text import TextFeatures
from modelling.features.traits import TraitFeatures
from modelling.models import ModelSnapshot, UpdateState
from modelling.training.inputs import InputDelta, InputSummary
from modelling.training.ranking import Ranking, rank_items, relative_sd
from modelling.training.settings import ModelSettings
from modelling.training.storage import array_store
from modelling.training.storage.label_store import DatabaseStore

CODE_VERSION = "0.9.0"  # of the model code, not of the release: changes with the numbers that a fit gives
ITEM_ARRAYS = ("item_ids", "ranked", "item_counts")
_LOADING = [Lock() for _ in range(16)]


# Fitted models ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FittedModel:
    """An estimator with its features and the primary keys of its items and workers."""

    model: Engine
    features: TextFeatures
    traits: TraitFeatures
    item_ids: NDArray[np.int64]
    ranked: NDArray[np.int64]  # positions of the active items
    item_counts: NDArray[np.int64]  # the number of labels about each item

    @property
    def store(self) -> DatabaseStore:
        """The labels and sites of the workers."""
        store = self.model.store
        assert isinstance(store, DatabaseStore)  # noqa: S101
        return store

    @property
    def worker_ids(self) -> NDArray[np.int64]:
        return self.store.worker_ids

    @cached_property
    def item_index(self) -> dict[int, int]:
        """Positions by primary key."""
        return {pk: position for position, pk in enumerate(self.item_ids.tolist())}

    @cached_property
    def worker_index(self) -> dict[int, int]:
        """Positions by primary key."""
        return {pk: position for position, pk in enumerate(self.worker_ids.tolist())}

    @property
    def lapse(self) -> float:
        """The share of answers given at random; 0 for an engine that does not know lapses."""
        return self.model.hyperparameters_.get("lapse", 0.0)

    def new_worker_features(self, delta: InputDelta) -> NDArray[np.float64] | None:
        """X_users of workers whom the model does not know; None if there are none."""
        count = len(delta.worker_ids) - len(self.worker_ids)
        if not count:
            return None
        return np.zeros((count, 1)) if self.model.X_users_ is None else self.traits.transform(delta.traits)

    @property
    def centre(self) -> NDArray[np.int64] | None:
        """The items whose mean score is 0: the ranked ones, or all if none is ranked (None)."""
        return self.ranked if len(self.ranked) else None

    @cached_property
    def offset(self) -> float:
        """The mean of t over the centre, which is subtracted from consensus scores."""
        return float(self.model.predict_consensus(items=self.centre).mean())

    @cached_property
    def consensus(self) -> NDArray[np.float64]:
        """The consensus score of every item, relative to the mean of the ranked ones."""
        return np.asarray(self.model.predict_consensus() - self.offset)

    @cached_property
    def weights(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Means (C, U) and covariances (U, C, C) of the workers' weights on the components."""
        return self.model.predict_weights()

    def to_arrays(self) -> array_store.Arrays:
        state = {f"model.{name}": array for name, array in self.model.to_state().items()}
        state |= {f"features.{name}": array for name, array in self.features.to_state().items()}
        state |= {f"traits.{name}": array for name, array in self.traits.to_state().items()}
        state |= {name: getattr(self, name) for name in ITEM_ARRAYS}
        store = self.store
        return state | {"worker_ids": store.worker_ids, "label_counts": store.counts, "label_digests": store.digests}

    @classmethod
    def from_arrays(cls, arrays: array_store.Arrays, number: int) -> "FittedModel":
        """Restore a version's model from its arrays; raise EarlierRelease if another release wrote them."""
        traits = select_prefix(arrays, "traits.")  # missing in old versions
        try:
            store = DatabaseStore(
                arrays["worker_ids"], arrays["label_counts"].copy(), arrays["label_digests"].copy(), number
            )
            return cls(
                model=restore_engine(select_prefix(arrays, "model."), store),
                features=TextFeatures.from_state(select_prefix(arrays, "features.")),
                traits=TraitFeatures.from_state(traits) if traits else TraitFeatures().fit([]),
                **{name: arrays[name] for name in ITEM_ARRAYS},
            )
        except (KeyError, TypeError, ValueError) as error:
            raise array_store.EarlierRelease from error


def select_prefix(arrays: array_store.Arrays, prefix: str) -> array_store.Arrays:
    """The arrays whose names start with `prefix`, which is removed."""
    return {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}


def item_positions(fitted: FittedModel, items: list[Item]) -> NDArray[np.int64]:
    return np.array([fitted.item_index[item.pk] for item in items], dtype=np.int64)


def current_snapshot(project: Project) -> ModelSnapshot | None:
    """The current version, which the next update continues from; None if there is none."""
    state = UpdateState.objects.filter(project=project).select_related("current").first()
    return state.current if state else None


def load_fitted_model(snapshot: ModelSnapshot) -> FittedModel:
    """A version's fitted model from a cache that all pages share; callers must not change it.

    When a new version appears, all open pages ask for it at once: one thread loads it and the others wait.
    """
    with _LOADING[hash(snapshot.checksum) % len(_LOADING)]:
        return _cached_fitted_model(snapshot.project, snapshot.checksum, snapshot.number)


@lru_cache(maxsize=8)
def _cached_fitted_model(project: Project, checksum: str, number: int) -> FittedModel:
    return read_fitted_model(project, checksum, number)


def read_fitted_model(project: Project, checksum: str, number: int) -> FittedModel:
    """A fitted model that is not shared and may be changed."""
    return FittedModel.from_arrays(array_store.load(project, checksum), number)


# The row of a version -----------------------------------------------------------------------------------------------


def build_snapshot(
    source: InputSummary | InputDelta, settings: ModelSettings, fitted: FittedModel, parent: ModelSnapshot | None
) -> ModelSnapshot:
    """The unsaved row of a new version, with everything needed to explain it later."""
    step = isinstance(source, InputDelta)
    return ModelSnapshot(
        parent=parent,
        kind=ModelSnapshot.Kind.STEP if step else ModelSnapshot.Kind.REFIT,
        first_sequence=parent.last_sequence + 1 if parent and step else 1,
        last_sequence=source.read_point.sequence,
        inputs_revision=source.read_point.inputs_revision,
        included=source.counts.included,
        excluded=source.counts.excluded,
        settings=settings.as_dict(),
        seed=settings.seed,
        data_hash=source.data_hash,
        code_version=CODE_VERSION,
        base=(parent.base or parent.checksum) if parent and step else "",
        **_diagnostics(fitted.model),
    )


def _diagnostics(model: Engine) -> dict[str, Any]:
    bounds = [float(bound) for bound in model.lower_bounds_ if np.isfinite(bound)]
    diagnostics = {
        "iterations": int(model.n_iter_),
        "converged": bool(model.converged_),
        "warnings": [str(warning) for warning in model.warnings_],
        "bounds": bounds,
        "components": len(model.component_variances_),
        "hyperparameters": {name: float(value) for name, value in model.hyperparameters_.items()},
    }
    return {"lower_bound": bounds[-1] if bounds else None, "diagnostics": diagnostics}


# Scores -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scores:
    """The columns of the ConsensusScore rows, one entry per ranked item."""

    item_id: NDArray[np.int64]
    mean: NDArray[np.float64]
    sd: NDArray[np.float64]
    rank: NDArray[np.int64]
    rank_low: NDArray[np.int64]
    rank_high: NDArray[np.int64]
    top_probability: NDArray[np.float64]
    polarisation: NDArray[np.float64]
    judgements: NDArray[np.int64]

    @property
    def are_finite(self) -> bool:
        return all(bool(np.isfinite(getattr(self, field.name)).all()) for field in fields(self))

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Yield one tuple of Python numbers per item, in the order of the fields."""
        return zip(*(getattr(self, field.name).tolist() for field in fields(self)), strict=True)


def consensus_scores(fitted: FittedModel, seed: int) -> Scores:
    """Score and rank the active items."""
    mean, sd, ranking = ranked_scores(fitted.model, fitted.ranked, np.random.default_rng(seed))
    return Scores(
        item_id=fitted.item_ids[fitted.ranked],
        mean=mean,
        sd=sd,
        rank=ranking.rank,
        rank_low=ranking.rank_low,
        rank_high=ranking.rank_high,
        top_probability=ranking.top_probability,
        polarisation=fitted.model.taste_sds(fitted.ranked, among=fitted.centre),
        judgements=fitted.item_counts[fitted.ranked],
    )


def ranked_scores(
    model: Engine, items: NDArray[np.int64], rng: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.float64], Ranking]:
    """Means and standard deviations relative to the mean of these items, and ranks."""
    mean, cov = model.predict_consensus(items=items, return_cov=True)
    mean = mean - mean.mean() if len(mean) else mean
    return mean, relative_sd(cov), rank_items(mean, cov, rng)
