"""Suggested versus random pairs: labels needed to reach a target in simulated studies with the product's policy.

    python -m benchmarks.planning.suggestions [--seeds 20] [--items 50 200] [--data DIR]

Labels needed: the number of labels at which the mean over studies (its monotone regression) of Kendall's tau to the
true order, or of the recall of the true top 10, reaches .8; intervals are bootstrapped over seeds. Random pairs are
those of the product without suggestions (least judged first). Suggestions keep a random share of 20 %; what it costs
is shown by studies without one. With --data the
answers of UKPConvArg are replayed: both policies choose among the judged pairs of a debate, and the consensus is
scored on labels that neither gets.

Twenty seeds take about 10 minutes of CPU time, and the replay another 5. A killed run continues after the last study.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import isotonic_regression
from scipy.stats import kendalltau

from benchmarks.harness import paired, print_progress, publish, timed
from benchmarks.paper.report import Runs, parser
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
NO_SHARE = "order, without a random share"
# Policy, random share, and the share of the budget after which a study ends: suggestions reach the target earlier.
VARIANTS = {
    RANDOM: (RANDOM, 0.2, 1.0),
    "order": ("order", 0.2, 0.75),
    NO_SHARE: ("order", 0.0, 0.75),
    "top": ("top", 0.2, 0.6),
}
RANDOM_UPDATES = 25  # of a study with random pairs, whose choice does not need the model
EACH = 40
GRID = 40  # points of a curve
RESAMPLES = 1000  # of the seeds, for intervals
Curves = dict[int, np.ndarray]
PURPOSES = ("order", "top", "coverage")


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    options = parse(argv)
    seeds, runs = range(1 if options.quick else options.seeds), Runs(NAME, options)
    result: dict[str, Any] = {"target": TARGET, "limit": LIMIT, "seeds": len(seeds), "labels_needed": {}}
    for n_items, budgets in (QUICK_BUDGET if options.quick else BUDGET).items():
        for spread, budget in budgets.items() if options.quick or n_items in options.items else ():
            design = StudyDesign(n_items, -(-budget // EACH), EACH, spread, top_k=min(TOP, n_items // 2))
            name = f"{n_items} items, spread {spread}"
            result["labels_needed"][name] = compare(design, seeds, runs)
            print_progress(f"{name}: {result['labels_needed'][name]['ratio']}")
    groups = StudyDesign(50, 6 if options.quick else 30, EACH, 1.5, disagreement=1.0, opinion_groups=3)
    result["three_opinion_groups"] = opinion_groups(groups, seeds, runs)
    result["cpu_seconds_1052_items"] = {p: suggestion_seconds(p, 60 if options.quick else 1052) for p in PURPOSES}
    if options.data:
        result["ukpconvarg"] = replay(options.data, seeds, runs, quick=options.quick)
    return publish(NAME, result, options)


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    made = parser(__doc__)
    made.add_argument("--seeds", type=int, default=20)
    made.add_argument("--items", type=int, nargs="+", default=[50, 200])
    made.add_argument("--data", help="folder of UKPConvArg with items.csv and judgements_all.csv")
    return made.parse_args(argv)


def compare(design: StudyDesign, seeds: Sequence[int], runs: Runs) -> dict[str, Any]:
    """Mean curves of tau and top recall for each policy, and the labels needed relative to random pairs."""
    grid = np.unique(np.geomspace(design.n_items / 2, design.n_judgements, GRID).astype(int))
    curves = {
        name: curves_of(
            replace(design, policy=policy, random_share=share), seeds, grid[grid <= last * design.n_judgements], runs
        )
        for name, (policy, share, last) in VARIANTS.items()
    }
    found: dict[str, Any] = {"labels": grid}
    for name, values in curves.items():
        if values:
            tau, recall = np.mean(list(values.values()), axis=0)
            found[name] = {"seeds": len(values), "tau": tau, "top_recall": recall}
    found["ratio"] = {
        "tau, suggestions for the order": ratio(grid, curves["order"], curves[RANDOM], 0),
        "tau, without a random share": ratio(grid, curves[NO_SHARE], curves[RANDOM], 0),
        "top 10, suggestions for the top": ratio(grid, curves["top"], curves[RANDOM], 1),
    }
    return found


def curves_of(design: StudyDesign, seeds: Sequence[int], grid: np.ndarray, runs: Runs) -> Curves:
    """The curves (2, grid) by seed; with --finished, of the seeds that have run."""
    key: dict[str, Any] = {
        "items": design.n_items,
        "workers": design.n_workers,
        "spread": design.spread,
        "policy": design.policy,
    }
    key |= {"random_share": design.random_share, "opinion_groups": design.opinion_groups}
    found = {seed: runs.cell(partial(curve, design, seed, grid), **key, seed=seed) for seed in seeds}
    return {seed: np.array([each["tau"], each["top_recall"]]) for seed, each in found.items() if each}


def ratio(grid: np.ndarray, suggested: Curves, random: Curves, row: int) -> dict[str, Any] | None:
    """Labels needed with suggestions relative to those with random pairs, with a 95% interval over seeds.

    If random pairs do not reach the target with all labels, this is an upper bound.
    """
    seeds = sorted(set(suggested) & set(random))
    if not seeds:
        return None
    with_, without = (np.array([curves[seed][row] for seed in seeds]) for curves in (suggested, random))

    def labels(rows: np.ndarray) -> tuple[float, float]:
        values = with_[rows].mean(axis=0)
        return needed(grid[: len(values)], values), needed(grid, without[rows].mean(axis=0))

    def of(rows: np.ndarray) -> float:
        least, most = labels(rows)
        return least / (grid[-1] if np.isnan(most) else most)

    every = np.arange(len(seeds))
    resamples = np.random.default_rng(0).choice(every, (RESAMPLES, len(every)))
    low, high = np.quantile(np.nan_to_num([of(rows) for rows in resamples], nan=np.inf), [0.025, 0.975])
    least, most = labels(every)
    found = {"seeds": len(seeds), "suggested": least, "random": most, "ratio": of(every), "low": low, "high": high}
    return {**found, "is_upper_bound": bool(np.isnan(most))}


def curve(design: StudyDesign, seed: int, grid: np.ndarray) -> dict[str, np.ndarray]:
    """Tau and recall of the true top at each number of labels on the grid."""
    if design.policy == RANDOM:
        design = replace(design, update_batch=max(design.update_batch, design.n_judgements // RANDOM_UPDATES))
    study, rows = simulate(design, seed), []
    for n in study.run():
        rows.append((n, *accuracy(study.model.predict_consensus(), study.crowd.t, design.top_k)))
        if n >= grid[-1]:
            break
    n, tau, recall = np.array(rows).T
    return {"tau": np.interp(grid, n, tau), "top_recall": np.interp(grid, n, recall)}


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


def opinion_groups(design: StudyDesign, seeds: Sequence[int], runs: Runs) -> dict[str, Any]:
    """Tau at equal labels with three opinion groups, by policy, and the paired difference over seeds."""
    grid = np.linspace(design.n_judgements / 4, design.n_judgements, 4).astype(int)
    order, random = (curves_of(replace(design, policy=policy), seeds, grid, runs) for policy in ("order", RANDOM))
    both = [(order[seed][0], random[seed][0]) for seed in sorted(set(order) & set(random))]
    found: dict[str, Any] = {"labels": grid, "seeds": len(both)}
    if both:
        found["order"], found[RANDOM] = np.mean(both, axis=0)
        found["order_minus_random"] = [paired(*columns) for columns in np.transpose(both, (2, 1, 0))]
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
