"""The stop rule: how often the top 5 is right when it states 90%, and how many labels it saves over a fixed number.

    python -m benchmarks.planning.stopping [--studies 200]

Studies of 15 to 30 items differ in the spread of scores, in tastes and in policy. A study stops when two updates in a
row reach 90%, or when all workers have finished. The saving compares the mean number of labels with the fixed number
at which the same share of studies has the right top 5.

A forecast is made when a study first states each of LEVELS. It is checked for the studies that last at least until the
forecast number: the share that has reached 90% by then, which should be .1, .5 and .9. A killed run continues after the
last study.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from benchmarks.harness import print_progress, publish
from benchmarks.paper.report import Runs, parser
from modelling.planning.simulator import RANDOM, StudyDesign, simulate
from modelling.planning.stopping import Forecast, certainty, continue_study
from modelling.training.reliability.estimates import wilson_interval

NAME = "stopping"
TARGET, TOP, IN_A_ROW = 0.9, 5, 2
EACH, WORKERS, BATCH = 40, 40, 20
LEVELS = (0.1, 0.3, 0.5, 0.7)
Row = dict[str, Any]


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    options = parse(argv)
    rows, runs = [], Runs(NAME, options)
    for number in range(2 if options.quick else options.studies):
        row = runs.cell(partial(run_study, number, 6 if options.quick else WORKERS), study=number)
        if row is None:
            break
        rows.append(row)
        if number % 20 == 19:
            print_progress(f"{number + 1} studies: {summary(rows)['right_when_stopped']}")
    return publish(NAME, summary(rows), options)


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    made = parser(__doc__)
    made.add_argument("--studies", type=int, default=200)
    return made.parse_args(argv)


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
    forecasts: dict[str, tuple[int, list[int | None]]] = {}
    stopped: int | None = None
    for n in study.run():
        posterior = study.posterior()
        said.append(certainty(posterior, TOP, rng).probability)
        labels.append(n)
        right.append(set(np.argsort(-posterior.mean)[:TOP].tolist()) == truth)
        if stopped is None and len(said) >= IN_A_ROW and min(said[-IN_A_ROW:]) >= TARGET:
            stopped = len(said) - 1
        for level in LEVELS:
            if level <= said[-1] < TARGET and str(level) not in forecasts and max(said) < TARGET:
                policy: Any = None if design.policy == RANDOM else design.policy
                taste, lapse = study.model.item_components_.T, study.model.hyperparameters_["lapse"]
                ahead = continue_study(posterior, TOP, n, policy, design.random_share, rng, taste, lapse)
                curve = Forecast.of(ahead.judgements, ahead.probability)
                forecasts[str(level)] = n, [curve.earliest(TARGET), curve.needed(TARGET), curve.latest(TARGET)]
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
        "forecasts": {str(level): check_forecasts(rows, level) for level in LEVELS},
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


def check_forecasts(rows: list[Row], level: float) -> dict[str, Any]:
    """For each end of the forecast range and its median, the share of studies that had reached the target by then."""
    made = [(row, *row["forecasts"][str(level)]) for row in rows if str(level) in row["forecasts"]]
    found: dict[str, Any] = {"n": len(made), "too_early": sum(needed[1] is None for _row, _n, needed in made)}
    for place, name in enumerate(("earliest", "median", "latest")):
        hits = [
            reached_at(row) <= n + needed[place]
            for row, n, needed in made
            if needed[place] is not None and n + needed[place] <= row["labels"][-1]
        ]
        found[name] = {"reached": float(np.mean(hits)) if hits else None, "n": len(hits)}
    return found


def reached_at(row: Row) -> float:
    """The number of labels at which the study first stated the target; infinity if it never did."""
    return next((n for n, said in zip(row["labels"], row["said"], strict=True) if said >= TARGET), float("inf"))


if __name__ == "__main__":
    main()
