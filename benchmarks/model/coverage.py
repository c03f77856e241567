"""Coverage of 95% intervals for consensus differences, ranks and personal differences in crowds with a known truth.

    python -m benchmarks.model.coverage [--crowds 20] [--first 0] [--no-features]

25 judges, 100 items on a grid (or without features), 2,304 labels; 0, 1, 3 and 10 components of unit variance; sd of
the consensus .3, 1 and 3; labels spread evenly over judges, or 90% of them from one judge.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.harness import arguments, print_progress, publish, rounded, standard_error, timed
from benchmarks.simulated_crowds import draw_crowd, draw_functions, grid
from modelling.crowdgppl import CrowdGPPL, PairwiseLabels
from modelling.training.ranking import Z_95, ranks

NAME = "coverage"
N_USERS, SIDE, N_LABELS, QUICK_LABELS = 25, 10, 2304, 600
TRUE_COMPONENTS, CONSENSUS_SDS, DESIGNS = (0, 1, 3, 10), (0.3, 1.0, 3.0), ("balanced", "imbalanced")
IMBALANCE = 0.9  # share of the labels that one judge gives
N_PAIRS, RANK_SAMPLES = 1000, 1000
KINDS = ("consensus_pairs", "ranks", "personal_pairs")
TARGETS = {"mean": [0.92, 0.97], "cell": 0.88, "ranks": "at least .92 on average"}


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    """Measure the coverage in every cell and over all cells."""
    options = parse(argv)
    tastes, sds = (TRUE_COMPONENTS, CONSENSUS_SDS) if not options.quick else ((1,), (1.0,))
    crowds = range(options.first, options.first + (1 if options.quick else options.crowds))
    cells = {}
    for n_components in options.tastes or tastes:
        for sd in sds:
            for design in DESIGNS:
                name = f"{n_components} components, sd(t) {sd}, {design}"
                found = [covered(options, seed, n_components, sd, design) for seed in crowds]
                cells[name] = summary(found)
                print_progress(f"{name}: {rounded(cells[name]['mean'])}")
    result = {"features": options.features, "targets": TARGETS, "crowds": list(crowds)}
    result["coverage"], result["verdict"] = cells, verdict(cells)
    return publish(NAME, result, options)


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the options of the command."""
    parser = arguments(__doc__)
    parser.add_argument("--crowds", type=int, default=20, help="for each cell")
    parser.add_argument("--first", type=int, default=0, help="the first crowd: other numbers are other crowds")
    parser.add_argument("--tastes", type=int, nargs="+", help="only these numbers of components")
    parser.add_argument("--no-features", dest="features", action="store_false", help="items without features")
    return parser.parse_args(argv)


def summary(rows: list[dict[str, float]]) -> dict[str, dict[str, float]]:
    """Means over crowds with their standard errors."""
    return {
        "mean": {key: float(np.mean([row[key] for row in rows])) for key in rows[0]},
        "standard_error": {key: standard_error([row[key] for row in rows]) for key in rows[0]},
    }


def verdict(cells: dict[str, Any]) -> dict[str, Any]:
    """The mean over cells and the worst cell, for each kind of interval."""
    found: dict[str, Any] = {}
    for kind in KINDS:
        means = {name: cell["mean"][kind] for name, cell in cells.items()}
        worst = min(means, key=lambda name: means[name])
        found[kind] = {"mean": float(np.mean(list(means.values()))), "worst": means[worst], "worst_cell": worst}
    return found


def covered(options: argparse.Namespace, seed: int, n_components: int, sd: float, design: str) -> dict[str, float]:
    """Return the share of one crowd's true values that lie inside their intervals."""
    n_labels = QUICK_LABELS if options.quick else N_LABELS
    rng = np.random.default_rng([seed, n_components, round(10 * sd), DESIGNS.index(design)])
    X = grid(SIDE) if options.features else None
    labels, t, F = crowd_labels(rng, X, n_components, sd, n_labels, design)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model, seconds = timed(lambda: CrowdGPPL().fit(labels, X_items=X, n_items=len(t), n_users=N_USERS))
    return {**consensus_coverage(model, t, rng), **personal_coverage(model, F, rng), "fit_cpu_seconds": seconds}


def crowd_labels(
    rng: np.random.Generator, X: np.ndarray | None, C: int, sd: float, n_labels: int, design: str
) -> tuple[PairwiseLabels, np.ndarray, np.ndarray]:
    """Labels, consensus (N,) and utilities (N, U) of a crowd from the generative model."""
    if design == "balanced":
        crowd = draw_crowd(
            rng, X_items=X, n_items=SIDE**2, n_users=N_USERS, n_labels=n_labels, n_components=C, s_t=sd**-2
        )
        given = crowd.labels
        return PairwiseLabels(u=given.u, a=given.a, b=given.b, y=given.y), crowd.t, crowd.F
    N = SIDE**2
    t, V = draw_functions(rng, X, N, np.array([sd**-2]))[0], draw_functions(rng, X, N, np.ones(C))
    F = t[:, None] + V.T @ rng.standard_normal((C, N_USERS))
    u = np.where(rng.random(n_labels) < IMBALANCE, 0, rng.integers(1, N_USERS, size=n_labels))
    a, b = random_pairs(rng, N, n_labels)
    y = (F[a, u] - F[b, u] + rng.standard_normal(n_labels) > 0).astype(float)
    return PairwiseLabels(u=u, a=a, b=b, y=y), t, F


def random_pairs(rng: np.random.Generator, N: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    a = rng.integers(N, size=n)
    return a, (a + rng.integers(1, N, size=n)) % N


def consensus_coverage(model: Any, t: np.ndarray, rng: np.random.Generator) -> dict[str, float]:
    """Coverage of differences between consensus scores over random pairs, and of ranks."""
    a, b = random_pairs(rng, len(t), N_PAIRS)
    mean, cov = model.predict_consensus(return_cov=True)
    error = mean - t
    low, high = rank_intervals(mean, cov, rng)
    truth = ranks(t[None, :])[0]
    centred = error - error.mean()
    slope = float(np.cov(mean, t)[0, 1] / np.var(mean, ddof=1)) if np.ptp(mean) > 0 else float("nan")
    return {
        "consensus_pairs": inside(error[a] - error[b], pair_sd(cov, a, b)),
        "ranks": float(((low <= truth) & (truth <= high)).mean()),
        "rank_interval_length": float((high - low + 1).mean()),
        "consensus_rmse": float(np.sqrt((centred**2).mean())),
        "consensus_slope": slope,  # slope of the truth on the estimate; below 1, scores are too spread out
    }


def rank_intervals(mean: np.ndarray, cov: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """95% rank intervals from posterior samples."""
    values, vectors = np.linalg.eigh(cov)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    sampled = ranks(mean + rng.standard_normal((RANK_SAMPLES, len(mean))) @ root.T)
    low, high = np.quantile(sampled, [0.025, 0.975], axis=0, method="nearest")
    return low, high


def personal_coverage(model: Any, F: np.ndarray, rng: np.random.Generator) -> dict[str, float]:
    """Coverage of differences between each judge's utilities over random pairs, and of centred utilities."""
    mean, sd = model.predict_utilities(return_std=True)
    error = F - mean
    error -= error.mean(axis=0)
    found = {"personal_scores": inside(error, sd)}
    a, b = random_pairs(rng, len(F), N_PAIRS)
    u = np.arange(N_PAIRS) % F.shape[1]
    gap, variance = model.predict_differences(u, a, b)
    return {**found, "personal_pairs": inside(gap - (F[a, u] - F[b, u]), np.sqrt(variance))}


def pair_sd(cov: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The standard deviation of each difference."""
    return np.asarray(np.sqrt(np.maximum(cov[a, a] + cov[b, b] - 2.0 * cov[a, b], 0.0)))


def inside(error: np.ndarray, sd: np.ndarray) -> float:
    """The share of true values within their 95% intervals."""
    return float((np.abs(error) <= Z_95 * sd).mean())


if __name__ == "__main__":
    main()
