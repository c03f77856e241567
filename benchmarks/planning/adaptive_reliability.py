"""Reliability under adaptive pairing: SSR of all judgements and of the random share, for noise and for real scores.

    python -m benchmarks.planning.adaptive_reliability [--runs 50]

In a pure-noise study every answer is a coin flip, so any reliability above 0 is an artefact of the pairing. A killed
run continues after the last study.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from benchmarks.harness import print_progress, publish, standard_error
from benchmarks.paper.report import Runs, parser
from modelling.planning.simulator import RANDOM, StudyDesign, simulate
from modelling.training.reliability import Answers, fit_scale, random_share_reliability, separation_reliability

NAME = "adaptive_reliability"
SIZES = {"n_items": 30, "n_workers": 20, "judgements_each": 30, "top_k": 5, "redundancy": 20, "update_batch": 20}
LIMIT = 0.05
MAX_SHOWN = 0.02  # share of noise studies with a projected reliability


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    options = parse(argv)
    seeds, runs = range(2 if options.quick else options.runs), Runs(NAME, options)
    result: dict[str, Any] = {"runs": len(seeds), "limit": LIMIT}
    noise: list[dict[str, float]] = []
    for name, careless in (("noise", 1.0), ("real", 0.0)):
        for policy in ("order",) if options.quick else ("order", "top", RANDOM):
            design = StudyDesign(policy=policy, careless=careless, spread=1.0, **SIZES)  # type: ignore[arg-type]
            if policy == RANDOM:  # no pair depends on the model
                design = replace(design, update_batch=design.n_judgements)
            found = [runs.cell(partial(run_study, design, s), policy=policy, answers=name, seed=s) for s in seeds]
            rows = [row for row in found if row]
            if not rows:
                continue
            result[f"{policy}, {name}"] = summary(rows)
            print_progress(f"{policy}, {name}: {result[f'{policy}, {name}']}")
            noise += rows if careless and policy != RANDOM else []
    result["met"] = bool(
        np.mean([row["random_share"] for row in noise]) <= LIMIT
        and np.isfinite([row["projected"] for row in noise]).mean() <= MAX_SHOWN
    )
    return publish(NAME, result, options)


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    made = parser(__doc__)
    made.add_argument("--runs", type=int, default=50)
    return made.parse_args(argv)


def run_study(design: StudyDesign, seed: int) -> dict[str, float]:
    study = simulate(design, seed)
    for _n in study.run():
        pass
    labels = study.labels
    answers = Answers(labels.u, labels.a, labels.b, labels.y, np.ones(len(labels)), design.n_items, labels.n_users)
    truth = None if design.careless else study.crowd.t
    return measure(answers, np.array(study.suggested), truth)


def measure(answers: Answers, suggested: np.ndarray, truth: np.ndarray | None) -> dict[str, float]:
    """Reliability by each route, and the squared correlation with the true scores; 0 if there are none."""
    scale = fit_scale(answers)
    naive = separation_reliability(scale, answers.parts)
    share = random_share_reliability(answers, ~suggested, scale)
    random, projected = share.reliability, share.projected
    true = 0.0 if truth is None else float(np.corrcoef(scale.scores, truth)[0, 1] ** 2)
    nan = float("nan")
    return {
        "naive": naive.value if naive else nan,
        "random_share": random.value if random else nan,
        "random_share_above_0": float(random is not None and random.low is not None and random.low > 0.0),
        "projected": projected.value if projected else nan,
        "true": true,
    }


def summary(rows: list[dict[str, float]]) -> dict[str, float]:
    found: dict[str, float] = {"runs": len(rows)}
    for name in rows[0]:
        values = np.array([row[name] for row in rows])
        known = values[np.isfinite(values)]
        found[name] = float(known.mean()) if len(known) else float("nan")
        found[f"{name}_se"] = standard_error(values.tolist())
    found["projected_shown"] = float(np.mean([np.isfinite(row["projected"]) for row in rows]))
    return found


if __name__ == "__main__":
    main()
