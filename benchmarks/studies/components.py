"""The number of components found in crowds with 0, 1 and 3 true components, and a unanimous crowd's ranking.

    python -m benchmarks.studies.components [--crowds 100] [--labels 2304 900 300]

25 judges, 100 items without features, unit variances. The unanimous crowd follows one order without noise; one judge
gives 600 labels and nine judges give one each.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.harness import arguments, print_progress, publish, timed
from benchmarks.simulated_crowds import draw_crowd
from modelling.crowdgppl import CrowdGPPL, PairwiseLabels

NAME = "components"
N_JUDGES, N_ITEMS = 25, 100
LABEL_COUNTS = (2304, 900, 300)
NO_TASTES, WITH_TASTES = 100, 20  # crowds
MOST_FALSE, LEAST_FOUND = 0.05, 0.9
UNANIMOUS_LABELS, UNANIMOUS_ITEMS, UNANIMOUS_SEEDS = (600, *[1] * 9), 10, 25


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    """Count components over crowds, then check the unanimous one."""
    options = parse(argv)
    counts = [int(n) for n in options.labels] if not options.quick else [300]
    sizes = (N_JUDGES, N_ITEMS) if not options.quick else (6, 15)
    result: dict[str, Any] = {"targets": {"false": MOST_FALSE, "found": LEAST_FOUND}}
    for n_labels in counts:
        for true in (0, 1, 3):
            crowds = 2 if options.quick else (options.crowds if true == 0 else min(options.crowds, options.with_tastes))
            found = [components_found(seed, true, n_labels, sizes) for seed in range(crowds)]
            result[f"{true} tastes, {n_labels} labels"] = counted(found, true)
            print_progress(f"{true} tastes, {n_labels} labels: {result[f'{true} tastes, {n_labels} labels']}")
    seeds = 2 if options.quick else UNANIMOUS_SEEDS
    in_order = [unanimous_in_order(seed) for seed in range(seeds)]
    result["unanimous"] = {"in_order": int(sum(in_order)), "seeds": seeds}
    print_progress(f"unanimous: {result['unanimous']}")
    return publish(NAME, result, options)


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the options of the command."""
    parser = arguments(__doc__)
    parser.add_argument("--crowds", type=int, default=NO_TASTES, help="crowds without tastes")
    parser.add_argument("--with-tastes", type=int, default=WITH_TASTES, help="crowds with tastes, of each kind")
    parser.add_argument("--labels", nargs="+", default=LABEL_COUNTS)
    return parser.parse_args(argv)


def components_found(seed: int, true: int, n_labels: int, sizes: tuple[int, int]) -> dict[str, Any]:
    """Fit a crowd and return the number of supported components."""
    rng, (U, N) = np.random.default_rng([seed, true, n_labels]), sizes
    crowd = draw_crowd(rng, n_users=U, n_labels=n_labels, n_components=true, n_items=N)
    given = crowd.labels
    labels = PairwiseLabels(u=given.u, a=given.a, b=given.b, y=given.y)
    model, seconds = timed(lambda: CrowdGPPL().fit(labels, n_items=N, n_users=U))
    return {"seed": seed, "found": len(model.component_variances_), "cpu_seconds": seconds}


def counted(rows: list[dict[str, Any]], true: int) -> dict[str, Any]:
    """Count crowds by their number of components."""
    found = np.array([row["found"] for row in rows])
    numbers, times = np.unique(found, return_counts=True)
    return {
        "crowds": len(found),
        "found": {int(n): int(k) for n, k in zip(numbers, times, strict=True)},
        "exact_share": float((found == true).mean()),
        "any_share": float((found > 0).mean()),
        "cpu_seconds": float(np.mean([row["cpu_seconds"] for row in rows])),
    }


def unanimous_labels(seed: int) -> PairwiseLabels:
    """Labels that all follow one order of the items, their order by index."""
    rng = np.random.default_rng(seed)
    u = np.repeat(np.arange(len(UNANIMOUS_LABELS)), UNANIMOUS_LABELS)
    a = rng.integers(UNANIMOUS_ITEMS, size=len(u))
    b = (a + rng.integers(1, UNANIMOUS_ITEMS, size=len(u))) % UNANIMOUS_ITEMS
    return PairwiseLabels(u=u, a=a, b=b, y=(a < b).astype(float))


def unanimous_in_order(seed: int) -> bool:
    """Whether the consensus has the same order as all the judges."""
    model = CrowdGPPL().fit(unanimous_labels(seed), n_items=UNANIMOUS_ITEMS)
    return bool((np.diff(model.predict_consensus()) < 0).all())


if __name__ == "__main__":
    main()
