"""Stability: how much scores change when one label is dropped, and between versions of a pilot study.

    python -m benchmarks.model.stability [--crowds 4] [--drops 10]

Dropped label: 100 items, 25 judges and 1,000 labels are fitted again without one label; reported are the moves of the
other items' centred scores, in posterior standard deviations. Pilot: 8 judges, 30 items and 20 versions, fitted from
scratch when the labels have grown by a factor of 1.2, otherwise by partial_fit, as in the product. For an exact
posterior at fixed hyperparameters, the expected squared move of a score is its old variance minus its new one.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.harness import arguments, print_progress, publish, rounded, timed
from benchmarks.simulated_crowds import draw_crowd, grid
from modelling.crowdgppl import CrowdGPPL, PairwiseLabels
from modelling.crowdgppl.model import REFIT_GROWTH
from modelling.training.ranking import relative_sd

NAME = "stability"
DROP_SIZES = {"n_items": 100, "n_users": 25, "n_labels": 1000}
PILOT_SIZES = {"n_items": 30, "n_users": 8, "n_labels": 600}
QUICK_SIZES = {"n_items": 15, "n_users": 5, "n_labels": 240}
VERSIONS, SETTLED = 20, 200  # labels from which hyperparameters must be steady
TARGETS = {"p95_move": 0.05, "step_ratio": 1.5, "hyperparameter_ratio": 1.5}
TASTES = (0, 3)
LEAST_GAIN = 0.01  # share of the old variance: a move of a tenth of a standard deviation never counts as a jump
NEGLIGIBLE = 0.05  # a hyperparameter below this share of the largest does not matter

Sizes = dict[str, Any]  # n_items, n_users, n_labels


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    """Run both checks, for crowds with and without tastes and features."""
    options = parse(argv)
    crowds = range(1 if options.quick else options.crowds)
    drops = 2 if options.quick else options.drops
    result: dict[str, Any] = {"targets": TARGETS}
    for n_components in TASTES[1:] if options.quick else TASTES:
        for features in (False,) if options.quick else (False, True):
            name = f"{n_components} tastes, {'grid' if features else 'no features'}"
            sizes = (QUICK_SIZES, QUICK_SIZES) if options.quick else (DROP_SIZES, PILOT_SIZES)
            moves = [dropped_label(seed, n_components, features, drops, sizes[0]) for seed in crowds]
            pilots = [pilot(seed, n_components, features, sizes[1]) for seed in crowds]
            result[name] = {"dropped_label": merge_moves(moves), "pilot": merge_pilots(pilots)}
            print_progress(f"{name}: {rounded(result[name])}")
    return publish(NAME, result, options)


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the options of the command."""
    parser = arguments(__doc__)
    parser.add_argument("--crowds", type=int, default=4)
    parser.add_argument("--drops", type=int, default=10, help="labels dropped, one at a time, of each crowd")
    return parser.parse_args(argv)


def simulated(seed: int, n_components: int, features: bool, sizes: Sizes) -> tuple[PairwiseLabels, np.ndarray | None]:
    """Sample labels in random order, and item features."""
    rng = np.random.default_rng([seed, n_components, int(features), sizes["n_labels"]])
    X = grid(int(np.ceil(np.sqrt(sizes["n_items"]))))[: sizes["n_items"]] if features else None
    given = draw_crowd(rng, X_items=X, n_components=n_components, **sizes).labels
    order = rng.permutation(len(given))
    return PairwiseLabels(given.u[order], given.a[order], given.b[order], given.y[order]), X


def scores(model: Any) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Centred consensus scores and utilities with their standard deviations, (N, 1) and (N, U)."""
    t, cov = model.predict_consensus(return_cov=True)
    F, sd = model.predict_utilities(return_std=True)
    return {
        "consensus": ((t - t.mean())[:, None], relative_sd(cov)[:, None]),
        "personal": (F, sd),
    }


# One label dropped


def dropped_label(seed: int, n_components: int, features: bool, drops: int, sizes: Sizes) -> dict[str, Any]:
    """Absolute moves of the scores of items not in the dropped pair, in posterior standard deviations."""
    labels, X = simulated(seed, n_components, features, sizes)
    N, U = sizes["n_items"], sizes["n_users"]
    rng = np.random.default_rng(seed)
    model, seconds = timed(lambda: fitted(labels, X, N, U))
    whole = scores(model)
    moves: dict[str, list[np.ndarray]] = {"consensus": [], "personal": []}
    ratios = []
    for row in rng.choice(len(labels), size=drops, replace=False):
        without = fitted(labels.take(np.arange(len(labels)) != row), X, N, U)
        others = np.setdiff1d(np.arange(N), [labels.a[row], labels.b[row]])
        for kind, (mean, _) in scores(without).items():
            moves[kind].append((np.abs(mean - whole[kind][0]) / whole[kind][1])[others].ravel())
        ratios.append(hyperparameter_ratio(model, without))
    found = {kind: np.concatenate(each) for kind, each in moves.items()}
    return {"moves": found, "fit_cpu_seconds": seconds, "hyperparameter_ratio": max(ratios)}


def fitted(labels: PairwiseLabels, X: np.ndarray | None, N: int, U: int) -> CrowdGPPL:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return CrowdGPPL().fit(labels, X_items=X, n_items=N, n_users=U)


def merge_moves(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Quantiles of the moves over all crowds and dropped labels."""
    found: dict[str, Any] = {}
    for kind in ("consensus", "personal"):
        moves = np.concatenate([row["moves"][kind] for row in rows])
        worst = max(np.quantile(row["moves"][kind], 0.95) for row in rows)
        found[kind] = {"p50": np.quantile(moves, 0.5), "p95": np.quantile(moves, 0.95), "p95_worst_crowd": worst}
    found["hyperparameter_ratio"] = max(row["hyperparameter_ratio"] for row in rows)
    found["fit_cpu_seconds"] = np.mean([row["fit_cpu_seconds"] for row in rows])
    return found


# Versions of a pilot


def pilot(seed: int, n_components: int, features: bool, sizes: Sizes) -> dict[str, Any]:
    """Each step's squared moves, reductions in variance, and largest change of a hyperparameter."""
    labels, X = simulated(seed, n_components, features, sizes)
    N, U = sizes["n_items"], sizes["n_users"]
    batches = np.array_split(np.arange(len(labels)), VERSIONS)
    model, n_fitted = fitted(labels.take(batches[0]), X, N, U), len(batches[0])
    steps: list[dict[str, float]] = []
    for batch in batches[1:]:
        before, old, n_labels = scores(model), model.hyperparameters_, int(batch[-1]) + 1
        if n_labels >= REFIT_GROWTH * n_fitted:
            model, n_fitted = fitted(labels.take(np.arange(n_labels)), X, N, U), n_labels
        else:
            model.partial_fit(labels.take(batch))
        after = scores(model)
        step: dict[str, float] = {"labels": n_labels, "hyperparameter_ratio": ratio(old, model.hyperparameters_)}
        for kind in before:
            (m0, s0), (m1, s1) = before[kind], after[kind]
            step[f"{kind}_move"] = float(((m1 - m0) ** 2).mean())
            step[f"{kind}_gain"] = float((s0**2 - s1**2).mean())
            step[f"{kind}_least"] = LEAST_GAIN * float((s0**2).mean())
            step[f"{kind}_sds"] = float(np.sqrt((((m1 - m0) / s0) ** 2).mean()))
        steps.append(step)
    return {"steps": steps}


def merge_pilots(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The root mean square move divided by the root of the variance lost, for each step and overall."""
    found: dict[str, Any] = {}
    steps = [row["steps"] for row in rows]
    for kind in ("consensus", "personal"):
        moves = np.array([[step[f"{kind}_move"] for step in each] for each in steps])
        gains = np.array([[step[f"{kind}_gain"] for step in each] for each in steps])
        least = np.array([[step[f"{kind}_least"] for step in each] for each in steps])
        by_step = np.sqrt(moves.mean(axis=0) / np.maximum(gains.mean(axis=0), least.mean(axis=0)))
        found[kind] = {
            "ratio": np.sqrt(moves.mean() / max(gains.mean(), least.mean())),
            "worst_step": by_step.max(),
            "by_step": by_step.round(2),
            "largest_move_in_sds": max(step[f"{kind}_sds"] for each in steps for step in each),
        }
    late = [s["hyperparameter_ratio"] for each in steps for s in each if s["labels"] > SETTLED]
    found["hyperparameter_ratio"] = max(late)
    found["share_of_steps_with_steady_hyperparameters"] = float(
        np.mean(np.array(late) <= TARGETS["hyperparameter_ratio"])
    )
    return found


def ratio(old: dict[str, float], new: dict[str, float]) -> float:
    """The largest factor by which a positive hyperparameter changed; negligible ones are ignored."""
    floor = NEGLIGIBLE * max([*old.values(), *new.values()])
    both = [(max(old[k], floor), max(new[k], floor)) for k in old if k in new]
    return max((max(x / y, y / x) for x, y in both), default=1.0)


def hyperparameter_ratio(first: Any, second: Any) -> float:
    return ratio(first.hyperparameters_, second.hyperparameters_)


if __name__ == "__main__":
    main()
