"""Suggested versus random pairs: labels needed to reach a target in simulated studies with the product's policy.

    python -m benchmarks.planning.suggestions [--seeds 5] [--items 50 200] [--data DIR]

Labels needed: the number of labels at which the mean over studies (its monotone regression) of Kendall's tau to the
true order, or of the recall of the true top 10, reaches .8. Random pairs are those of the product without suggestions
(least judged first). Suggestions keep a random share of 20 %. With --data the answers of UKPConvArg are replayed: both
policies choose among the judged pairs of a debate, and the consensus is scored on labels that neither gets.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.optimize import isotonic_regression
from scipy.stats import kendalltau

from benchmarks.harness import arguments, print_progress, publish, timed
from benchmarks.planning.replay import replay
from modelling.planning.policy import PairQuestion, suggest_pairs
from modelling.planning.posterior import OrderPosterior
from modelling.planning.simulator import RANDOM, StudyDesign, simulate

NAME = "suggestions"
TARGET, TOP = 0.8, 10
LIMIT = 0.7  # largest acceptable share of the labels that random pairs need
# Labels of each study, by number of items and spread of the consensus scores in units of an answer's noise.
BUDGET = {50: {1.0: 900, 1.5: 600, 2.0: 500}, 200: {1.5: 2200}}
QUICK_BUDGET = {20: {1.5: 200}}
EACH = 40
GRID = 40  # points of a curve


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    options = parse(argv)
    seeds = range(1 if options.quick else options.seeds)
    result: dict[str, Any] = {"target": TARGET, "limit": LIMIT, "seeds": len(seeds), "labels_needed": {}}
    for n_items, budgets in (QUICK_BUDGET if options.quick else BUDGET).items():
        for spread, budget in budgets.items() if options.quick or n_items in options.items else ():
            design = StudyDesign(n_items, -(-budget // EACH), EACH, spread, top_k=min(TOP, n_items // 2))
            name = f"{n_items} items, spread {spread}"
            result["labels_needed"][name] = compare(design, seeds)
            print_progress(f"{name}: {result['labels_needed'][name]['ratio']}")
    groups = StudyDesign(50, 30, EACH, 1.5, disagreement=1.0, opinion_groups=3)
    result["three_opinion_groups"] = opinion_groups(replace(groups, n_workers=6) if options.quick else groups, seeds)
    result["cpu_seconds_1052_items"] = {p: suggestion_seconds(p, 60 if options.quick else 1052) for p in PURPOSES}
    if options.data:
        result["ukpconvarg"] = replay(options.data, seeds, quick=options.quick)
    return publish(NAME, result, options)


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = arguments(__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--items", type=int, nargs="+", default=[50, 200])
    parser.add_argument("--data", help="folder of UKPConvArg with items.csv and judgements_all.csv")
    return parser.parse_args(argv)


PURPOSES = ("order", "top", "coverage")


def compare(design: StudyDesign, seeds: Sequence[int]) -> dict[str, Any]:
    """Curves of tau and top recall for each policy, the labels needed, and their ratio to those of random pairs."""
    grid = np.unique(np.geomspace(design.n_items / 2, design.n_judgements, GRID).astype(int))
    found: dict[str, Any] = {"labels": grid}
    for policy in (RANDOM, "order", "top"):
        curves = np.mean([curve(replace(design, policy=policy), seed, grid) for seed in seeds], axis=0)
        found[policy] = {"tau": curves[0], "top_recall": curves[1]}
        for row, measure in enumerate(("tau", "top_recall")):
            found[policy][f"labels_for_{measure}"] = needed(grid, curves[row])
    found["ratio"] = {
        "tau, suggestions for the order": found["order"]["labels_for_tau"] / needed_or_all(found, "tau"),
        "top 10, suggestions for the top": found["top"]["labels_for_top_recall"] / needed_or_all(found, "top_recall"),
    }
    return found


def needed_or_all(found: dict[str, Any], measure: str) -> float:
    """Labels that random pairs need, or all labels if the study is too short, which makes the ratio an upper bound."""
    labels = found[RANDOM][f"labels_for_{measure}"]
    return float(found["labels"][-1] if np.isnan(labels) else labels)


def curve(design: StudyDesign, seed: int, grid: np.ndarray) -> np.ndarray:
    """Tau and recall of the true top at each number of labels on the grid, (2, grid)."""
    study = simulate(design, seed)
    rows = [(n, *accuracy(study.model.predict_consensus(), study.crowd.t, design.top_k)) for n in study.run()]
    n, tau, recall = np.array(rows).T
    return np.array([np.interp(grid, n, tau), np.interp(grid, n, recall)])


def accuracy(scores: np.ndarray, truth: np.ndarray, k: int) -> tuple[float, float]:
    top = set(np.argsort(-scores)[:k]) & set(np.argsort(-truth)[:k])
    return float(kendalltau(scores, truth).statistic), len(top) / k


def needed(grid: np.ndarray, values: np.ndarray) -> float:
    """The number of labels at which the monotone regression of the curve reaches the target; NaN if it does not."""
    rising = isotonic_regression(values).x
    at = int(np.searchsorted(rising, TARGET))
    if at == len(grid):
        return float("nan")
    if at == 0:
        return float(grid[0])
    share = (TARGET - rising[at - 1]) / (rising[at] - rising[at - 1])
    return float(grid[at - 1] + share * (grid[at] - grid[at - 1]))


def opinion_groups(design: StudyDesign, seeds: Sequence[int]) -> dict[str, Any]:
    """Tau at equal labels with three opinion groups, by policy."""
    grid = np.linspace(design.n_judgements / 4, design.n_judgements, 4).astype(int)
    found: dict[str, Any] = {"labels": grid}
    for policy in (RANDOM, "order"):
        found[policy] = np.mean([curve(replace(design, policy=policy), seed, grid)[0] for seed in seeds], axis=0)
    found["not_below_random"] = bool((found["order"] >= found[RANDOM] - 0.005).all())
    return found


def suggestion_seconds(purpose: Any, n_items: int) -> float:
    """CPU seconds for computing one version's suggestions."""
    rng = np.random.default_rng(0)
    root = rng.standard_normal((n_items, n_items)) / np.sqrt(n_items)
    cov, mean = 0.2 * root @ root.T + 0.05 * np.eye(n_items), rng.standard_normal(n_items)
    seconds, taste = rng.uniform(5.0, 30.0, n_items), 0.3 * rng.standard_normal((n_items, 3))
    question = PairQuestion(purpose, TOP, rng.integers(0, 30, n_items), taste, seconds)
    return timed(lambda: suggest_pairs(OrderPosterior.given_scale(mean, cov), question, 1000, rng))[1]


if __name__ == "__main__":
    main()
