"""How fast and how small: fits of Sushi's shapes on generated data, in Cholesky units, against the paper's SVI."""

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
    dgemm_peak,
    in_units,
    peak_megabytes,
    publish,
    tell,
    timed,
    unit_now,
)
from modelling.baselines import PaperSVI
from modelling.crowdgppl import CrowdGPPL, PairwiseLabels
from modelling.simulation import draw_crowd, draw_labels

NAME = "speed"
TRUE_COMPONENTS, N_COMPONENTS, GIVEN_VARIANCE = 5, 20, 20.0


@dataclass(frozen=True)
class Shape:
    """How many users, items and labels."""

    users: int
    items: int
    labels: int


SUSHI_A, SUSHI_B = Shape(100, 10, 2_000), Shape(5_000, 100, 50_000)
SMALL = Shape(60, 10, 600)


@dataclass(frozen=True)
class Study:
    """Labels to learn from and labels to be judged by."""

    shape: Shape
    train: PairwiseLabels
    test: PairwiseLabels


def make_study(shape: Shape, seed: int = 0) -> Study:
    """Items without features, tastes twice as strong as the noise, as on Sushi."""
    rng = np.random.default_rng(seed)
    crowd = draw_crowd(
        rng, n_users=shape.users, n_items=shape.items, n_labels=shape.labels, n_components=TRUE_COMPONENTS,
        s_t=1.0, s_v=1.0,
    )  # fmt: skip
    return Study(shape, as_labels(crowd.labels), as_labels(draw_labels(rng, crowd.F, max(2 * shape.labels // 5, 500))))


def as_labels(drawn: Any) -> PairwiseLabels:
    """Drawn labels as the model takes them."""
    return PairwiseLabels(u=drawn.u, a=drawn.a, b=drawn.b, y=drawn.y)


def judge(model: Any, test: PairwiseLabels) -> dict[str, float]:
    """Accuracy and cross entropy on labels never seen."""
    p = np.clip(model.predict_proba(test.u, test.a, test.b), 1e-9, 1 - 1e-9)
    right = np.where(test.y == 1.0, p, 1 - p)
    return {"accuracy": float(np.mean(right > 0.5)), "cross_entropy": float(-np.mean(np.log(right)))}


def measure(make: Callable[[], Any], study: Study) -> dict[str, Any]:
    """Units of one fit, its iterations and what it is worth."""
    sizes = {"n_items": study.shape.items, "n_users": study.shape.users}
    model, seconds = timed(lambda: make().fit(study.train, **sizes))
    iterations = {"iterations": model.n_iter_} if hasattr(model, "n_iter_") else {}
    return {"units": in_units(seconds), "cpu_seconds": seconds, **iterations, **judge(model, study.test)}


def given() -> CrowdGPPL:
    """The scale given: one fit."""
    return CrowdGPPL(n_components=N_COMPONENTS, personal_variance=GIVEN_VARIANCE, finish=False)


def automatic() -> CrowdGPPL:
    """The defaults: the scale chosen, and the finish."""
    return CrowdGPPL(n_components=N_COMPONENTS)


def in_batches(shape: Shape) -> CrowdGPPL:
    """Ten batches of users."""
    return CrowdGPPL(
        n_components=N_COMPONENTS, personal_variance=GIVEN_VARIANCE, finish=False, batch_size=max(1, shape.users // 10)
    )


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    """Time, memory and scaling."""
    parser = arguments(__doc__)
    parser.add_argument("--memory-of", choices=["b", "small"], help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.memory_of:
        return report_memory(SUSHI_B if options.memory_of == "b" else SMALL)
    shapes = {"small": SMALL} if options.quick else {"sushi_a": SUSHI_A, "sushi_b": SUSHI_B}
    result: dict[str, Any] = {"cholesky_unit_seconds": cholesky_unit(), "dgemm_gflops": dgemm_peak() / 1e9}
    for name, shape in shapes.items():
        result[name] = of_shape(name, shape)
    result["peak_megabytes"] = memory_in_a_process("small" if options.quick else "b")
    result["scaling"] = scaling(SMALL if options.quick else Shape(1_000, 100, 10_000), options.quick)
    result["cholesky_unit_seconds_at_the_end"] = unit_now()
    result["load_average"] = os.getloadavg()
    return publish(NAME, result, options)


def of_shape(name: str, shape: Shape) -> dict[str, Any]:
    """Every way to fit one shape."""
    study = make_study(shape)
    batch = 2_000 if shape.labels > 10_000 else 200
    epochs = 12 if shape.labels > 10_000 else 10
    ways: dict[str, Callable[[], Any]] = {
        "scale given": given,
        "scale chosen, finish": automatic,
        "ten batches of users": lambda: in_batches(shape),
        "paper's SVI": lambda: PaperSVI(
            n_components=N_COMPONENTS, batch_size=batch, n_iterations=epochs * shape.labels // batch
        ),
    }
    rows = {}
    for way, make in ways.items():
        rows[way] = measure(make, study)
        tell(f"{name}, {way}: {rows[way]}")
    work = flops_per_iteration(study) * rows["scale given"]["iterations"]
    rows["scale given"]["share_of_dgemm_peak"] = work / rows["scale given"]["cpu_seconds"] / dgemm_peak()
    return rows


def flops_per_iteration(study: Study) -> float:
    """Multiplications and additions that one full iteration cannot do without."""
    C, M = N_COMPONENTS, study.shape.items
    per_user = np.bincount(study.train.u, minlength=study.shape.users).astype(np.float64)
    smaller = np.minimum(per_user, C)
    users = np.sum(2 * per_user * C * smaller + 2 * smaller**3 + 2 * C * C * smaller)
    moments = len(study.train) * 4.0 * C * C
    low, high = np.minimum(study.train.a, study.train.b), np.maximum(study.train.a, study.train.b)
    n_pairs = len(np.unique(low * M + high))
    statistics = len(study.train) * 2.0 * (C + 1) ** 2
    items = (C + 1) * (M**3 + 4.0 * n_pairs * (C + 1) + 4.0 * M * M)
    return float(users + moments + statistics + items)


def report_memory(shape: Shape) -> dict[str, Any]:
    """The peak of this process after one automatic fit: printed for the process that asked."""
    study = make_study(shape)
    before = peak_megabytes()
    automatic().fit(study.train, n_items=shape.items, n_users=shape.users)
    found = {"before_the_fit": before, "in_all": peak_megabytes()}
    print(json.dumps(found))
    return found


def memory_in_a_process(shape: str) -> dict[str, float]:
    """Peak memory of an automatic fit in a fresh process."""
    command = [sys.executable, "-m", "benchmarks.speed", "--memory-of", shape]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def scaling(base: Shape, quick: bool) -> dict[str, dict[str, float]]:
    """Units per iteration as one size at a time is changed."""
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
        settings = {"n_components": N_COMPONENTS, "personal_variance": GIVEN_VARIANCE, "finish": False, **changed}
        row = measure(lambda settings=settings: CrowdGPPL(**settings), make_study(shape))
        out[name] = {"units": row["units"], "units_per_iteration": row["units"] / max(row["iterations"], 1)}
        tell(f"scaling, {name}: {out[name]}")
    return out


if __name__ == "__main__":
    main()
