"""An estimator becomes a snapshot (arrays, one row, one score per item), and a snapshot an estimator again."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from functools import cached_property, lru_cache
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from annotation.models import Item, Project
from modelling import arrays
from modelling.crowdgppl import CrowdGPPL, PairwiseLabels
from modelling.crowdgppl.inducing import MANY_ITEMS
from modelling.features import TextFeatures, TraitFeatures
from modelling.inputs import Inputs, News
from modelling.model_settings import ModelSettings
from modelling.models import ModelSnapshot, UpdateState
from modelling.ranking import Ranking, rank_draws, rank_items, rank_many, relative_sd, relative_sd_of_many

SCORES_AT_ONCE = 4_000_000  # workers times items whose own scores are formed at a time: 32 MB
CODE_VERSION = "0.5.0"
IDS = ("item_ids", "worker_ids", "ranked")
READING = [Lock() for _ in range(16)]


@dataclass(frozen=True)
class Fitted:
    """A snapshot as something that predicts: the estimator, and whose indices its rows are."""

    model: CrowdGPPL
    features: TextFeatures
    traits: TraitFeatures
    item_ids: NDArray[np.int64]
    worker_ids: NDArray[np.int64]
    ranked: NDArray[np.int64]  # the items that are given to workers, by position

    @cached_property
    def item_at(self) -> dict[int, int]:
        """Where each item stands in the arrays, by its id."""
        return {pk: place for place, pk in enumerate(self.item_ids.tolist())}

    @cached_property
    def worker_at(self) -> dict[int, int]:
        """Where each worker stands in the arrays, by their id."""
        return {pk: place for place, pk in enumerate(self.worker_ids.tolist())}

    def position_of_worker(self, worker_id: int) -> int | None:
        return self.worker_at.get(worker_id)

    def newcomers(self, news: News) -> NDArray[np.float64] | None:
        """Workers of whom the model has seen nothing, as it sees workers; None where there are none."""
        count = len(news.worker_ids) - len(self.worker_ids)
        if not count:
            return None
        return np.zeros((count, 1)) if self.model.X_users_ is None else self.traits.transform(news.traits)

    @property
    def labels(self) -> PairwiseLabels:
        """What the model has learned from and not forgotten."""
        state = self.model.to_state()
        return PairwiseLabels(*(state[name] for name in ("u", "a", "b", "y", "weight")))


@dataclass(frozen=True)
class Scores:
    """One entry per ranked item: what ConsensusScore rows hold."""

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
    def are_numbers(self) -> bool:
        return all(bool(np.isfinite(getattr(self, field.name)).all()) for field in fields(self))

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Plain numbers, item by item, in the order of the fields."""
        return zip(*(getattr(self, field.name).tolist() for field in fields(self)), strict=True)


def current_snapshot(project: Project) -> ModelSnapshot | None:
    """The version pages show now."""
    state = UpdateState.objects.filter(project=project).select_related("current").first()
    return state.current if state else None


def load_fitted(snapshot: ModelSnapshot) -> Fitted:
    """The estimator as it was published, for reading: kept in memory and shared between pages.

    Pages that are open all come at once for a new version: one reads it, the others wait for that one.
    """
    with READING[hash(snapshot.checksum) % len(READING)]:
        return _shared(snapshot.project, snapshot.checksum)


@lru_cache(maxsize=8)
def _shared(project: Project, checksum: str) -> Fitted:
    return read_fitted(project, checksum)


def read_fitted(project: Project, checksum: str) -> Fitted:
    """An estimator of one's own, which may go on learning; Damaged if other code wrote its arrays."""
    return fitted_from(arrays.load(project, checksum))


def fitted_from(stored: arrays.Arrays) -> Fitted:
    """The estimator that `arrays_of` wrote."""
    try:
        return Fitted(
            model=CrowdGPPL.from_state(part(stored, "model.")),
            features=TextFeatures.from_state(part(stored, "features.")),
            traits=traits_from(stored),
            **{name: stored[name] for name in IDS},
        )
    except (KeyError, TypeError, ValueError) as error:
        raise arrays.Damaged("written by other code") from error


def traits_from(stored: arrays.Arrays) -> TraitFeatures:
    """How the version reads workers; versions from before workers were read know no traits."""
    kept = part(stored, "traits.")
    return TraitFeatures.from_state(kept) if kept else TraitFeatures().fit([])


def arrays_of(fitted: Fitted) -> arrays.Arrays:
    """Everything the estimator and its texts' features are made of, under one name each."""
    state = {f"model.{name}": array for name, array in fitted.model.to_state().items()}
    state |= {f"features.{name}": array for name, array in fitted.features.to_state().items()}
    state |= {f"traits.{name}": array for name, array in fitted.traits.to_state().items()}
    return {**state, **{name: getattr(fitted, name) for name in IDS}}


def part(stored: arrays.Arrays, prefix: str) -> arrays.Arrays:
    """The arrays whose names begin so, under the rest of their names."""
    return {name.removeprefix(prefix): value for name, value in stored.items() if name.startswith(prefix)}


def describe(
    source: Inputs | News, settings: ModelSettings, fitted: Fitted, parent: ModelSnapshot | None
) -> ModelSnapshot:
    """The row of a new snapshot, not yet saved: everything needed to explain it later."""
    step = isinstance(source, News)
    return ModelSnapshot(
        parent=parent,
        kind=ModelSnapshot.Kind.STEP if step else ModelSnapshot.Kind.REFIT,
        first_sequence=parent.last_sequence + 1 if parent and step else 1,
        last_sequence=source.moment.sequence,
        inputs_revision=source.moment.inputs_revision,
        included=source.counts.included,
        excluded=source.counts.excluded,
        settings=settings.as_dict(),
        seed=settings.seed,
        data_hash=source.data_hash,
        code_version=CODE_VERSION,
        base=(parent.base or parent.checksum) if parent and step else "",
        refined=fitted.model.refined_ is not None,
        **_course(fitted.model),
    )


def _course(model: CrowdGPPL) -> dict[str, Any]:
    """How the fit went."""
    bounds = [float(bound) for bound in model.lower_bounds_ if np.isfinite(bound)]
    diagnostics = {
        "iterations": int(model.n_iter_),
        "converged": bool(model.converged_),
        "warnings": [str(warning) for warning in model.warnings_],
        "bounds": bounds,
    }
    if model.refined_ is not None:
        diagnostics["refined"] = asdict(model.refined_)
    return {"lower_bound": bounds[-1] if bounds else None, "diagnostics": diagnostics}


def consensus_scores(fitted: Fitted, seed: int) -> Scores:
    """One score per active item, ranked."""
    mean, sd, ranking = ranked_scores(fitted.model, fitted.ranked, np.random.default_rng(seed))
    return Scores(
        item_id=fitted.item_ids[fitted.ranked],
        mean=mean,
        sd=sd,
        rank=ranking.rank,
        rank_low=ranking.rank_low,
        rank_high=ranking.rank_high,
        top_probability=ranking.top_probability,
        polarisation=polarisation(fitted.model, fitted.ranked),
        judgements=judgements_per_item(fitted)[fitted.ranked],
    )


def ranked_scores(
    model: CrowdGPPL, items: NDArray[np.int64], rng: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.float64], Ranking]:
    """Means, deviations and ranks; of many items without a matrix of all pairs of them."""
    if len(items) > MANY_ITEMS:
        mean, F, own = model.predict_consensus_factors(items)
        return mean, relative_sd_of_many(F, own), rank_many(mean, F, own, rng)
    mean, cov = model.predict_consensus(items=items, return_cov=True)
    draws = model.draw_consensus(items)
    return mean, relative_sd(cov), rank_items(mean, cov, rng) if draws is None else rank_draws(mean, draws)


def judgements_per_item(fitted: Fitted) -> NDArray[np.int64]:
    labels, n = fitted.labels, len(fitted.item_ids)
    return np.bincount(labels.a, minlength=n) + np.bincount(labels.b, minlength=n)


def polarisation(model: CrowdGPPL, items: NDArray[np.int64]) -> NDArray[np.float64]:
    """The spread over workers of their predicted scores for each item, as many items at a time as memory allows."""
    most = max(1, SCORES_AT_ONCE // max(model.n_users_, 1))
    parts = [items[start : start + most] for start in range(0, len(items), most)]
    return np.concatenate([np.std(model.predict_utilities(items=part), axis=1) for part in parts])


def item_positions(fitted: Fitted, items: list[Item]) -> NDArray[np.int64]:
    """Where these items stand in the fitted arrays."""
    return np.array([fitted.item_at[item.pk] for item in items], dtype=np.int64)
