"""Simultaneous claims: in how many simulated studies no claim is false, and how many pairs are claimed.

    python -m benchmarks.planning.claims [--studies 200]

Studies differ in items, workers, spread of scores, tastes and policy. A study is right if every claim “A is above B”,
and so every range of ranks, every tier and every sentence, is true of the known order.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.harness import arguments, print_progress, publish
from modelling.findings.claims import simultaneous_claims
from modelling.planning.simulator import RANDOM, StudyDesign, simulate
from modelling.training.ranking import rank_samples, ranks
from modelling.training.reliability.estimates import wilson_interval

NAME = "claims"
EACH, BATCH = 40, 40


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    options = parse(argv)
    rows = []
    for number in range(2 if options.quick else options.studies):
        rows.append(run_study(number))
        if number % 20 == 19:
            print_progress(f"{number + 1} studies: {summary(rows)['without_a_false_claim']}")
    return publish(NAME, summary(rows), options)


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = arguments(__doc__)
    parser.add_argument("--studies", type=int, default=200)
    return parser.parse_args(argv)


def run_study(number: int) -> dict[str, Any]:
    rng = np.random.default_rng([number, 5])
    design = StudyDesign(
        n_items=int(rng.integers(12, 50)),
        n_workers=int(rng.integers(8, 30)),
        judgements_each=EACH,
        spread=float(rng.uniform(0.5, 2.5)),
        disagreement=float(rng.choice([0.0, 0.5, 1.0])),
        policy=str(rng.choice([RANDOM, "order", "top"])),
        top_k=5,
        redundancy=10,
        update_batch=BATCH,
    )
    study = simulate(design, number)
    for _n in study.run():
        pass
    posterior, t = study.posterior(), study.crowd.t
    (found,) = simultaneous_claims([posterior], [None], rng)
    true_rank = ranks(t[None, :])[0]
    pointwise = rank_samples(posterior.mean, posterior.sample(500, rng))
    return {
        "disagreement": design.disagreement,
        "policy": design.policy,
        "false": int((found.above & (t[:, None] < t[None, :])).sum()),
        "claimed": float(found.above.sum() / (len(t) * (len(t) - 1) / 2)),
        "tiers": int(found.tier.max()),
        "ranks_right": bool(((found.rank_low <= true_rank) & (true_rank <= found.rank_high)).all()),
        "pointwise_ranks_right": bool(((pointwise.rank_low <= true_rank) & (true_rank <= pointwise.rank_high)).all()),
    }


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    right = np.array([row["false"] == 0 for row in rows])
    by: dict[str, dict[str, float]] = {}
    for name in ("disagreement", "policy"):
        values = {str(row[name]) for row in rows}
        by[name] = {v: float(right[[str(row[name]) == v for row in rows]].mean()) for v in sorted(values)}
    return {
        "studies": len(rows),
        "target": 0.95,
        "without_a_false_claim": float(right.mean()),
        "interval": wilson_interval(float(right.mean()), len(rows)),
        "ranges_of_ranks_all_right": float(np.mean([row["ranks_right"] for row in rows])),
        "pointwise_ranges_all_right": float(np.mean([row["pointwise_ranks_right"] for row in rows])),
        "share_of_pairs_claimed": float(np.mean([row["claimed"] for row in rows])),
        "mean_tiers": float(np.mean([row["tiers"] for row in rows])),
        "by": by,
    }


if __name__ == "__main__":
    main()
