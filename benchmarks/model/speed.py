"""Time (in Cholesky units) and memory of fits to generated data of Sushi's sizes, compared with the paper's SVI."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.harness import (
    arguments,
    cholesky_unit,
    in_units,
    peak_megabytes,
    print_progress,
    publish,
    timed,
    unit_now,
)
from benchmarks.simulated_crowds import draw_crowd, draw_labels
from modelling.baselines import PaperSVI
from modelling.crowdgppl import CrowdGPPL, PairwiseLabels

NAME = "speed"
TRUE_COMPONENTS, N_COMPONENTS = 5, 20


@dataclass(frozen=True)
class Shape:
    """Numbers of users, items and labels."""

    users: int
    items: int
    labels: int


SUSHI_A, SUSHI_B = Shape(100, 10, 2_000), Shape(5_000, 100, 50_000)
SMALL = Shape(60, 10, 600)


@dataclass(frozen=True)
class Study:
    """Training and test labels."""

    shape: Shape
    train: PairwiseLabels
    test: PairwiseLabels


def make_study(shape: Shape, seed: int = 0) -> Study:
    """Generate a study like Sushi: items without features, tastes twice as strong as the noise."""
    rng = np.random.default_rng(seed)
    crowd = draw_crowd(
        rng, n_users=shape.users, n_items=shape.items, n_labels=shape.labels, n_components=TRUE_COMPONENTS,
        s_t=1.0, s_v=1.0,
    )  # fmt: skip
    return Study(shape, crowd.labels, draw_labels(rng, crowd.F, max(2 * shape.labels // 5, 500)))


def score(model: Any, test: PairwiseLabels) -> dict[str, float]:
    """Compute accuracy and cross entropy on the test labels."""
    p = np.clip(model.predict_proba(test.u, test.a, test.b), 1e-9, 1 - 1e-9)
    right = np.where(test.y == 1.0, p, 1 - p)
    return {"accuracy": float(np.mean(right > 0.5)), "cross_entropy": float(-np.mean(np.log(right)))}


def measure(make: Callable[[], Any], study: Study) -> dict[str, Any]:
    """Measure Cholesky units, iterations and test figures of one fit."""
    sizes = {"n_items": study.shape.items, "n_users": study.shape.users}
    model, seconds = timed(lambda: make().fit(study.train, **sizes))
    iterations = {"iterations": model.n_iter_} if hasattr(model, "n_iter_") else {}
    return {"units": in_units(seconds), "cpu_seconds": seconds, **iterations, **score(model, study.test)}


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    """Measure time, memory and scaling."""
    parser = arguments(__doc__)
    parser.add_argument("--memory-of", choices=["b", "small"], help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.memory_of:
        return report_memory(SUSHI_B if options.memory_of == "b" else SMALL)
    shapes = {"small": SMALL} if options.quick else {"sushi_a": SUSHI_A, "sushi_b": SUSHI_B}
    result: dict[str, Any] = {"cholesky_unit_seconds": cholesky_unit()}
    for name, shape in shapes.items():
        result[name] = measure_shape(name, shape)
    result["peak_megabytes"] = memory_in_a_process("small" if options.quick else "b")
    result["scaling"] = scaling(SMALL if options.quick else Shape(1_000, 100, 10_000), options.quick)
    result["cholesky_unit_seconds_at_the_end"] = unit_now()
    result["load_average"] = os.getloadavg()
    return publish(NAME, result, options)


def measure_shape(name: str, shape: Shape) -> dict[str, Any]:
    """Measure every way of fitting one shape."""
    study = make_study(shape)
    batch = 2_000 if shape.labels > 10_000 else 200
    epochs = 12 if shape.labels > 10_000 else 10
    ways: dict[str, Callable[[], Any]] = {
        "one batch": CrowdGPPL,
        "consensus only": lambda: CrowdGPPL(n_components=0),
        "ten batches of users": lambda: CrowdGPPL(batch_size=max(1, shape.users // 10)),
        "paper's SVI": lambda: PaperSVI(
            n_components=N_COMPONENTS, batch_size=batch, n_iterations=epochs * shape.labels // batch
        ),
    }
    rows = {}
    for way, make in ways.items():
        rows[way] = measure(make, study)
        print_progress(f"{name}, {way}: {rows[way]}")
    return rows


def report_memory(shape: Shape) -> dict[str, Any]:
    """Print the peak memory of this process after one fit, for the parent process."""
    study = make_study(shape)
    before = peak_megabytes()
    CrowdGPPL().fit(study.train, n_items=shape.items, n_users=shape.users)
    found = {"before_the_fit": before, "in_all": peak_megabytes()}
    print(json.dumps(found))
    return found


def memory_in_a_process(shape: str) -> dict[str, float]:
    """Measure the peak memory of a fit in a new process."""
    command = [sys.executable, "-m", "benchmarks.model.speed", "--memory-of", shape]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def scaling(base: Shape, quick: bool) -> dict[str, dict[str, float]]:
    """Measure Cholesky units per iteration while varying one size at a time."""
    variants: dict[str, tuple[Shape, dict[str, Any]]] = {
        "base": (base, {}),
        "half the users": (Shape(base.users // 2, base.items, base.labels // 2), {}),
        "twice the users": (Shape(2 * base.users, base.items, 2 * base.labels), {}),
        "twice the labels": (Shape(base.users, base.items, 2 * base.labels), {}),
        "four times the labels": (Shape(base.users, base.items, 4 * base.labels), {}),
        "twice the items": (Shape(base.users, 2 * base.items, base.labels), {}),
        "5 components": (base, {"n_components": 5}),
        "10 components": (base, {"n_components": 10}),
        "40 components": (base, {"n_components": 40}),
        "batches of a tenth": (base, {"batch_size": max(1, base.users // 10)}),
        "batches of a half": (base, {"batch_size": base.users // 2}),
    }
    out = {}
    for name, (shape, changed) in list(variants.items())[: 2 if quick else None]:
        row = measure(lambda changed=changed: CrowdGPPL(**changed), make_study(shape))
        out[name] = {"units": row["units"], "units_per_iteration": row["units"] / max(row["iterations"], 1)}
        print_progress(f"scaling, {name}: {out[name]}")
    return out


if __name__ == "__main__":
    main()
