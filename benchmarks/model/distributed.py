"""Fits on a Dask scheduler and two workers on this machine: the same result, a lost worker, and when it pays off.

Cores may be shared with other programs, so the time on free cores is computed from CPU seconds: those of this process,
plus those of the busiest worker.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from threading import Thread
from typing import Any

import django
import numpy as np

from benchmarks.harness import arguments, paired, print_progress, publish, timed
from benchmarks.load.cluster import Cluster
from benchmarks.model.speed import Shape, Study, make_study, score
from modelling.crowdgppl import CrowdGPPL, Executor

NAME = "distributed"
SAME = Shape(4_000, 60, 80_000)
SIZES = (
    Shape(5_000, 100, 100_000),
    Shape(20_000, 100, 400_000),
    Shape(50_000, 100, 1_000_000),
    Shape(4_000, 100, 400_000),
    Shape(20_000, 500, 400_000),
    Shape(20_000, 1_000, 400_000),
)
QUICK = Shape(300, 10, 9_000)


def fit(study: Study, executor: Executor | None = None) -> CrowdGPPL:
    """Fit in mini-batches, as large studies are fitted."""
    batch = min(max(40_000, study.shape.labels // 25), study.shape.labels // 2)
    model = CrowdGPPL(batch_labels=batch, executor=executor)
    return model.fit(study.train, n_items=study.shape.items, n_users=study.shape.users)


def fit_on(cluster: Cluster, study: Study) -> CrowdGPPL:
    """Run the same fit on a cluster's workers."""
    from modelling.training.executors import DaskExecutor

    return fit(study, DaskExecutor(cluster.client))


def same_result(cluster: Cluster, shape: Shape, seeds: int) -> dict[str, Any]:
    """Compare held-out figures of fits in this process and on two workers."""
    rows, identical = [], 0
    for seed in range(seeds):
        print_progress(f"same result, seed {seed}")
        study = make_study(shape, seed)
        here, there = fit(study), fit_on(cluster, study)
        identical += int(np.array_equal(here.predict_consensus(), there.predict_consensus()))
        rows.append((score(here, study.test), score(there, study.test)))
    figures = {
        name: {
            "here": float(np.mean([here[name] for here, _ in rows])),
            "two workers": float(np.mean([there[name] for _, there in rows])),
            "difference": paired([there[name] for _, there in rows], [here[name] for here, _ in rows]),
        }
        for name in ("accuracy", "cross_entropy")
    }
    return {"shape": vars(shape), "seeds": seeds, "identical to the last bit": identical, **figures}


def lost_worker(cluster: Cluster, shape: Shape) -> dict[str, Any]:
    """Kill one of the workers during a fit, and compare the result with an undisturbed fit."""
    study = make_study(shape)
    here, iterations, killed_at = fit(study), list[float](), list[int]()

    def kill_in_the_middle(step: dict[str, float]) -> None:
        iterations.append(step["iteration"])
        if step["iteration"] >= (here.n_iter_ * 2) // 3 and not killed_at:
            killed_at.append(int(step["iteration"]))
            Thread(target=cluster.kill_worker).start()

    from modelling.training.executors import DaskExecutor

    model = CrowdGPPL(
        batch_labels=min(40_000, shape.labels // 2), executor=DaskExecutor(cluster.client), progress=kill_in_the_middle
    )
    model.fit(study.train, n_items=shape.items, n_users=shape.users)
    return {
        "killed at iteration": killed_at[0],
        "iterations": model.n_iter_,
        "workers left": len(cluster.client.nthreads()),
        "identical to the last bit": bool(np.array_equal(here.predict_consensus(), model.predict_consensus())),
        "cross_entropy": score(model, study.test)["cross_entropy"],
    }


def speed_up(cluster: Cluster, shape: Shape) -> dict[str, Any]:
    """Measure CPU and wall-clock seconds of the same fit in this process and on the workers."""
    print_progress(f"speed, {shape}")
    study = make_study(shape)
    began = time.monotonic()
    _, here = timed(lambda: fit(study))
    wall_here, before, began = time.monotonic() - began, cluster.cpu_seconds(), time.monotonic()
    _, coordinator = timed(lambda: fit_on(cluster, study))
    wall_there = time.monotonic() - began
    workers = [after - before[name] for name, after in cluster.cpu_seconds().items()]
    on_free_cores = coordinator + max(workers)
    return {
        "shape": vars(shape),
        "cpu seconds here": here,
        "cpu seconds of the coordinator": coordinator,
        "cpu seconds of each worker": workers,
        "wall seconds, shared cores": [wall_here, wall_there],
        "speed-up on free cores": here / on_free_cores,
    }


def main(args: Sequence[str] | None = None) -> dict[str, Any]:
    """Run the benchmark; without the package `distributed` it is skipped."""
    options = arguments(__doc__).parse_args(args)
    try:
        import distributed  # noqa: F401
    except ImportError:
        print_progress("skipped: the package distributed is not installed (extra `distributed`)")
        return {}
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings.compute")
    django.setup()
    with Cluster(2) as cluster:
        sizes = (QUICK,) if options.quick else SIZES
        result: dict[str, Any] = {
            "same": same_result(cluster, QUICK if options.quick else SAME, 1 if options.quick else 5),
            "speed": [speed_up(cluster, shape) for shape in sizes],
        }
        result["lost worker"] = lost_worker(cluster, QUICK if options.quick else SAME)
    return publish(NAME, result, options)


if __name__ == "__main__":
    main(sys.argv[1:])
