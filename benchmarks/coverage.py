"""Whether intervals cover: scores, ranks and personal utilities of simulated crowds whose truth is known.

    python -m benchmarks.coverage [--data DIR] [--first 0]

25 users, 100 items on a grid, all scales 1, the defaults of the estimator. What is tested is what pages, files and rows
show. With DIR (UKPConvArgCrowdSample), or a simulated study of its size, also what intervals cost a published version.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import arguments, publish, standard_error, tell, timed
from benchmarks.rows import Source, from_folder, simulated
from modelling.crowdgppl import CrowdGPPL, PairwiseLabels
from modelling.crowdgppl.finish import consensus_of
from modelling.crowdgppl.intervals import Contrast
from modelling.features import TextFeatures
from modelling.model_settings import ModelSettings, item_kernel
from modelling.ranking import TOP, Z_95, rank_items, ranks, relative_sd
from modelling.simulation import SimulatedCrowd, draw_crowd, grid

NAME = "coverage"
N_USERS, SIDE = 25, 10
TRUE_COMPONENTS, LABEL_COUNTS = (1, 3, 10), (900, 2304)
COST_SIZE, SMALL_SIZE = (1052, 1442, 16_927), (40, 15, 900)  # items, workers, labels
TARGETS = {
    "consensus_pairs": {"1 and 3 components": [0.88, 0.98], "10 components": [0.85, 1.0]},
    "ranks": {"1 and 3 components": [0.85, 0.95]},
    "personal_pairs": {"1 and 3 components": [0.88, 0.98]},
    "cost_cpu_seconds": 1.0,
}


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    """Coverage in every cell, and the cost."""
    parser = arguments(__doc__)
    parser.add_argument("--data", type=Path, help="folder of UKPConvArgCrowdSample")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, help="the first repeat: other ones are other crowds")
    options = parser.parse_args(argv)
    counts, tastes = (LABEL_COUNTS[:1], TRUE_COMPONENTS[:1]) if options.quick else (LABEL_COUNTS, TRUE_COMPONENTS)
    repeats = range(options.first, options.first + (1 if options.quick else options.repeats))
    cells = {}
    for n_components in tastes:
        for n_labels in counts:
            name = f"{n_components} components, {n_labels} labels"
            cells[name] = summary([covered(repeat, n_components, n_labels) for repeat in repeats])
            tell(f"{name}: {cells[name]['mean']}")
    source = from_folder(options.data) if options.data else simulated(*(SMALL_SIZE if options.quick else COST_SIZE))
    result = {"targets": TARGETS, "repeats": [repeats.start, repeats.stop - 1], "coverage": cells}
    return publish(NAME, {**result, "cost": cost(source)}, options)


def summary(rows: list[dict[str, float]]) -> dict[str, dict[str, float]]:
    """Means over repeats with their standard errors."""
    return {
        "mean": {key: float(np.mean([row[key] for row in rows])) for key in rows[0]},
        "standard_error": {key: standard_error([row[key] for row in rows]) for key in rows[0]},
    }


def covered(repeat: int, n_components: int, n_labels: int) -> dict[str, float]:
    """One crowd: which share of its truths lies inside the intervals."""
    rng = np.random.default_rng([repeat, n_components, n_labels])
    crowd = draw_crowd(rng, X_items=grid(SIDE), n_users=N_USERS, n_labels=n_labels, n_components=n_components)
    given = crowd.labels
    labels = PairwiseLabels(given.u, given.a, given.b, given.y)
    model, seconds = timed(lambda: CrowdGPPL().fit(labels, X_items=crowd.X_items, n_users=N_USERS))
    found = {**consensus_coverage(model, crowd), **personal_coverage(model, crowd)}
    return {**found, "private_share": model.choice_.share, "fit_cpu_seconds": seconds}


def judged_pairs(crowd: SimulatedCrowd) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of items with at least one label."""
    pairs = np.unique(np.sort(np.stack((crowd.labels.a, crowd.labels.b), axis=1), axis=1), axis=0)
    return pairs[:, 0], pairs[:, 1]


def consensus_coverage(model: CrowdGPPL, crowd: SimulatedCrowd) -> dict[str, float]:
    """Differences of t (mean field beside it), scores as shown, ranks, and the chance to be among the best."""
    a, b = judged_pairs(crowd)
    mean, cov = model.predict_consensus(return_cov=True)
    error = mean - crowd.t
    ranking, truth = rank_items(mean, cov, np.random.default_rng(0)), ranks(crowd.t[None, :])[0]
    post = model._post
    narrow = post.space.times(post.space.times(post.items.cov[0]).T)
    return {
        "consensus_pairs": inside(error[a] - error[b], pair_sd(cov, a, b)),
        "consensus_pairs_mean_field": inside(error[a] - error[b], pair_sd(narrow, a, b)),
        "scores": inside(error - error.mean(), relative_sd(cov)),
        "ranks": float(((ranking.rank_low <= truth) & (truth <= ranking.rank_high)).mean()),
        "rank_interval_length": float((ranking.rank_high - ranking.rank_low + 1).mean()),
        "top_10_said": float(ranking.top_probability[mean.argsort()[::-1][:TOP]].mean()),
        "top_10_true": float((truth[mean.argsort()[::-1][:TOP]] <= TOP).mean()),
    }


def personal_coverage(model: CrowdGPPL, crowd: SimulatedCrowd) -> dict[str, float]:
    """Every user's differences over the same pairs, their scores as shown, and their differences from the crowd."""
    a, b = judged_pairs(crowd)
    users, items = np.arange(N_USERS), np.arange(crowd.n_items)
    view = model._view(None)
    F, sd = model.predict_utilities(return_std=True, among=items)
    error = F - crowd.F
    over_pairs = model._sd_at(Contrast(view.rows(a) - view.rows(b), view.rest(a, b)), users)
    own, own_sd = model.predict_differences(among=items)
    own_error = own - (crowd.F - crowd.t[:, None])
    return {
        "personal_pairs": inside(error[a] - error[b], over_pairs),
        "personal_scores": inside(error - error.mean(axis=0), sd),
        "differences_from_the_crowd": inside(own_error - own_error.mean(axis=0), own_sd),
    }


def pair_sd(cov: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The deviation of each difference."""
    return np.asarray(np.sqrt(np.maximum(cov[a, a] + cov[b, b] - 2.0 * cov[a, b], 0.0)))


def inside(error: np.ndarray, sd: np.ndarray) -> float:
    """The share of truths within the 95 % interval."""
    return float((np.abs(error) <= Z_95 * sd).mean())


def cost(source: Source) -> dict[str, Any]:
    """CPU seconds that intervals and ranks of all items add to a version, and one worker's page to a request."""
    settings, features = ModelSettings(), TextFeatures().fit(source.texts)
    kernel = item_kernel(settings.kernel, features.blocks)
    model = CrowdGPPL(settings.n_components, settings.n_inducing_items, item_kernel=kernel, personal_variance=1.0)
    tell(f"cost: fitting {source.name}")
    model.fit(source.labels, X_items=features.transform(source.texts), n_items=len(source.texts))
    post, items = model._post, np.arange(len(source.texts))
    (mean, cov), predicted = timed(lambda: model.predict_consensus(return_cov=True))
    parts = {
        "covariance of the consensus, tastes integrated out": timed(lambda: consensus_of(post))[1],
        "covariance of all scores": predicted,
        "intervals": timed(lambda: relative_sd(cov))[1],
        "ranks by draws": timed(lambda: rank_items(mean, cov, np.random.default_rng(0)))[1],
    }
    _, worker = timed(lambda: model.predict_utilities(users=[0], return_std=True, among=items))
    return {
        "source": source.name,
        "sizes": {"items": len(items), "workers": model.n_users_, "labels": len(source.labels)},
        "parts_cpu_seconds": parts,
        "version_cpu_seconds": sum(parts.values()),
        "one_worker_cpu_seconds": worker,
    }


if __name__ == "__main__":
    main()
