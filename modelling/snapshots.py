"""An estimator becomes a snapshot (arrays, one row, one score per item), and a snapshot an estimator again."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from annotation.models import Item, Project
from modelling import arrays
from modelling.crowdgppl import CrowdGPPL
from modelling.features import TextFeatures
from modelling.fitting import ModelSettings
from modelling.inputs import Inputs
from modelling.models import ConsensusScore, ModelSnapshot, UpdateState
from modelling.ranking import rank_items

ITEMS_AT_ONCE = 500
CODE_VERSION = "0.1.0"


@dataclass(frozen=True)
class Fitted:
    """A snapshot as something that predicts: the estimator, and whose indices its rows are."""

    model: CrowdGPPL
    features: TextFeatures
    item_ids: NDArray[np.int64]
    worker_ids: NDArray[np.int64]

    def position_of_worker(self, worker_id: int) -> int | None:
        found = np.flatnonzero(self.worker_ids == worker_id)
        return int(found[0]) if found.size else None


def current_snapshot(project: Project) -> ModelSnapshot | None:
    """The version pages show now."""
    state = UpdateState.objects.filter(project=project).select_related("current").first()
    return state.current if state else None


def load_fitted(snapshot: ModelSnapshot) -> Fitted:
    """The estimator as it was published, for reading: kept in memory and shared between pages."""
    return _shared(snapshot.project, snapshot.checksum)


@lru_cache(maxsize=8)
def _shared(project: Project, checksum: str) -> Fitted:
    return read_fitted(project, checksum)


def read_fitted(project: Project, checksum: str) -> Fitted:
    """An estimator of one's own, which may go on learning."""
    stored = arrays.load(project, checksum)
    model = CrowdGPPL.from_state(_part(stored, "model."))
    features = TextFeatures.from_state(_part(stored, "features."))
    return Fitted(model, features, stored["item_ids"], stored["worker_ids"])


def save_arrays(project: Project, fitted: Fitted) -> str:
    state = {f"model.{name}": value for name, value in fitted.model.to_state().items()}
    state |= {f"features.{name}": value for name, value in fitted.features.to_state().items()}
    return arrays.save(project, {**state, "item_ids": fitted.item_ids, "worker_ids": fitted.worker_ids})


def describe(
    inputs: Inputs, settings: ModelSettings, fitted: Fitted, parent: ModelSnapshot | None, kind: str
) -> ModelSnapshot:
    """The row of a new snapshot, not yet saved: everything needed to explain it later."""
    model, step = fitted.model, kind == ModelSnapshot.Kind.STEP
    bounds = [float(bound) for bound in model.lower_bounds_ if np.isfinite(bound)]
    return ModelSnapshot(
        parent=parent,
        kind=kind,
        first_sequence=parent.last_sequence + 1 if parent and step else 1,
        last_sequence=inputs.moment.sequence,
        inputs_revision=inputs.moment.inputs_revision,
        included=len(inputs.labels),
        excluded=inputs.excluded,
        settings=settings.as_dict(),
        seed=settings.seed,
        data_hash=inputs.data_hash,
        code_version=CODE_VERSION,
        lower_bound=bounds[-1] if bounds else None,
        diagnostics={
            "iterations": int(model.n_iter_),
            "converged": bool(model.converged_),
            "warnings": [str(warning) for warning in model.warnings_],
            "bounds": bounds,
        },
    )


def consensus_scores(inputs: Inputs, fitted: Fitted, seed: int) -> list[ConsensusScore]:
    """One score per active item, ranked; the snapshot is filled in when it is published."""
    ranked = [place for place, item in enumerate(inputs.items) if item.active]
    items = [inputs.items[place] for place in ranked]
    positions = item_positions(fitted, items)
    mean, cov = fitted.model.predict_consensus(items=positions, return_cov=True)
    ranking = rank_items(mean, cov, np.random.default_rng(seed))
    counts, spread = inputs.judgements_per_item[ranked], polarisation(fitted.model, positions)
    return [
        ConsensusScore(
            item=item,
            mean=mean[row],
            sd=float(np.sqrt(max(cov[row, row], 0.0))),
            rank=ranking.rank[row],
            rank_low=ranking.rank_low[row],
            rank_high=ranking.rank_high[row],
            top_probability=ranking.top_probability[row],
            polarisation=spread[row],
            judgements=counts[row],
        )
        for row, item in enumerate(items)
    ]


def polarisation(model: CrowdGPPL, items: NDArray[np.int64]) -> NDArray[np.float64]:
    """The spread over workers of their predicted scores for each item, a few hundred items at a time."""
    parts = [items[start : start + ITEMS_AT_ONCE] for start in range(0, len(items), ITEMS_AT_ONCE)]
    return np.concatenate([np.std(model.predict_utilities(items=part), axis=1) for part in parts])


def _part(stored: arrays.Arrays, prefix: str) -> arrays.Arrays:
    return {name.removeprefix(prefix): value for name, value in stored.items() if name.startswith(prefix)}


def item_positions(fitted: Fitted, items: list[Item]) -> NDArray[np.int64]:
    """Where these items stand in the fitted arrays."""
    at = {int(pk): position for position, pk in enumerate(fitted.item_ids)}
    return np.array([at[item.pk] for item in items], dtype=np.int64)
