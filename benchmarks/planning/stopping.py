"""The stop rule: how often the top 5 is right when it states 90%, and how many labels it saves over a fixed number.

    python -m benchmarks.planning.stopping [--studies 200]

Studies of 15 to 30 items differ in the spread of scores, in tastes and in policy. A study stops when two updates in a
row reach 90%, or when all workers have finished. The saving compares the mean number of labels with the fixed number
at which the same share of studies has the right top 5.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.harness import arguments, print_progress, publish
from modelling.planning.simulator import RANDOM, StudyDesign, simulate
from modelling.planning.stopping import certainty, forecast
from modelling.training.reliability.estimates import wilson_interval

NAME = "stopping"
TARGET, TOP, IN_A_ROW = 0.9, 5, 2
EACH, WORKERS, BATCH = 40, 40, 20
Row = dict[str, Any]


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    options = parse(argv)
    rows = []
    for number in range(2 if options.quick else options.studies):
        rows.append(run_study(number, 6 if options.quick else WORKERS))
        if number % 20 == 19:
            print_progress(f"{number + 1} studies: {summary(rows)['right_when_stopped']}")
    return publish(NAME, summary(rows), options)


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = arguments(__doc__)
    parser.add_argument("--studies", type=int, default=200)
    return parser.parse_args(argv)


def draw_design(number: int, workers: int) -> StudyDesign:
    rng = np.random.default_rng([number, 77])
    return StudyDesign(
        n_items=int(rng.integers(15, 31)),
        n_workers=workers,
        judgements_each=EACH,
        spread=float(rng.uniform(1.5, 3.0)),
        disagreement=float(rng.choice([0.0, 0.5])),
        policy=str(rng.choice([RANDOM, "order", "top"])),
        top_k=TOP,
        redundancy=20,
        update_batch=BATCH,
    )


def run_study(number: int, workers: int) -> Row:
    """Simulate a study; return whether the top 5 was right at each update, when the rule stopped, and its forecasts."""
    design = draw_design(number, workers)
    study, rng = simulate(design, number), np.random.default_rng(number)
    truth = set(np.argsort(-study.crowd.t)[:TOP].tolist())
    labels, right, said = [], [], []
    forecasts: list[tuple[int, int | None]] = []
    stopped: int | None = None
    for n in study.run():
        posterior = study.posterior()
        said.append(certainty(posterior, TOP, rng).probability)
        labels.append(n)
        right.append(set(np.argsort(-posterior.mean)[:TOP].tolist()) == truth)
        if stopped is None and len(said) >= IN_A_ROW and min(said[-IN_A_ROW:]) >= TARGET:
            stopped = len(said) - 1
        if stopped is None and 0.3 < said[-1] < TARGET and not forecasts:
            policy: Any = None if design.policy == RANDOM else design.policy
            forecasts.append((n, forecast(posterior, TOP, n, policy, design.random_share, rng).needed(TARGET)))
    return {"labels": labels, "right": right, "said": said, "stopped": stopped, "forecasts": forecasts}


def summary(rows: list[Row]) -> dict[str, Any]:
    stopped = [row for row in rows if row["stopped"] is not None]
    hits = [row["right"][row["stopped"]] for row in stopped]
    share = float(np.mean(hits)) if hits else float("nan")
    at_end = [row["right"][-1 if row["stopped"] is None else row["stopped"]] for row in rows]
    used = [row["labels"][-1 if row["stopped"] is None else row["stopped"]] for row in rows]
    fixed = fixed_number(rows, float(np.mean(at_end)))
    return {
        "studies": len(rows),
        "stopped": len(stopped),
        "right_when_stopped": share,
        "interval": wilson_interval(share, len(hits)) if hits else None,
        "target": 0.85,
        "right_of_all": float(np.mean(at_end)),
        "mean_labels": float(np.mean(used)),
        "fixed_number_with_as_many_right": fixed,
        "saving": None if fixed is None else 1.0 - float(np.mean(used)) / fixed,
        "calibration": calibration(rows),
        "forecast_ratio": forecast_ratio(rows),
    }


def fixed_number(rows: list[Row], share: float) -> float | None:
    """The number of labels at which this share of the studies has the right top 5; None if it is never reached."""
    grid = np.arange(BATCH, max(max(row["labels"]) for row in rows) + 1, BATCH)
    curves = [np.interp(grid, row["labels"], np.array(row["right"], dtype=float)) for row in rows]
    reached = np.flatnonzero(np.mean(curves, axis=0) >= share)
    return float(grid[reached[0]]) if len(reached) else None


def calibration(rows: list[Row]) -> list[dict[str, float]]:
    """Compare stated probabilities, in bins of a tenth, with how often the top 5 was right, over all updates."""
    said = np.concatenate([row["said"] for row in rows])
    right = np.concatenate([row["right"] for row in rows])
    tenth = np.minimum((said * 10).astype(int), 9)
    return [
        {"said": float(said[tenth == k].mean()), "right": float(right[tenth == k].mean()), "n": int((tenth == k).sum())}
        for k in range(10)
        if (tenth == k).any()
    ]


def forecast_ratio(rows: list[Row]) -> dict[str, float] | None:
    """Quartiles of judgements needed divided by those forecast when the rule first stated more than 30%."""
    ratios = []
    for row in rows:
        for n, needed in row["forecasts"]:
            if row["stopped"] is not None and needed:
                ratios.append((row["labels"][row["stopped"]] - n) / needed)
    if not ratios:
        return None
    low, middle, high = np.quantile(ratios, [0.25, 0.5, 0.75]).tolist()
    return {"n": len(ratios), "lower_quartile": low, "median": middle, "upper_quartile": high}


if __name__ == "__main__":
    main()
