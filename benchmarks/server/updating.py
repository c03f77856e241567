"""The cost of each part of an update, and the quality of incremental updates compared with a refit.

    python -m benchmarks.server.updating [--data DIR] [--quality]

Without DIR (UKPConvArgCrowdSample) a simulated crowd of the same size is used. CPU seconds are those of this process.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks.harness import arguments, peak_megabytes, print_progress, publish
from benchmarks.server.rows import Source, Study, database, from_folder, make_study, simulated

NAME = "updating"
BATCH, ROUNDS = 50, 5
HELD_OUT, STREAMED = 0.10, 0.10
SMALL, LARGE = (40, 15, 1800), (1052, 1442, 16_927)  # items, workers, labels
LEARNABLE = (100, 300, 16_927)  # 12 labels per worker on 1,052 unrelated items predict no better than chance
TARGETS = {
    "update_wall_seconds": 3,
    "update_cpu_seconds": 2,
    "estimator_share_of_refit": 0.2,
    "write_lock_ms": 50,
    "accuracy_lost": 0.005,
    "log_loss_lost": 0.01,
}
PARTS = {  # label: module and name of the measured function
    "read": ("modelling.updater.update", "read_delta"),
    "scoreboard: predict": ("modelling.updater.update", "score_predictions"),
    "estimator": ("modelling.training.training_state", "update_model"),
    "scoreboard: baselines learn": ("modelling.training.training_state", "update_baselines"),
    "consensus scores": ("modelling.updater.update", "consensus_scores"),
    "describe": ("modelling.updater.update", "build_snapshot"),
    "arrays": ("modelling.training.storage.array_store", "save"),
    "publish": ("modelling.updater.update", "publish"),
    "tidy up": ("modelling.updater.update", "clean_up_versions"),
    "estimator from scratch": ("modelling.training.training_state", "fit"),
}


class Clock:
    """CPU and wall-clock seconds of named parts."""

    def __init__(self) -> None:
        self.cpu: dict[str, float] = defaultdict(float)
        self.wall: dict[str, float] = defaultdict(float)

    @contextmanager
    def running(self, part: str) -> Iterator[None]:
        cpu, wall = time.process_time(), time.perf_counter()
        try:
            yield
        finally:
            self.cpu[part] += time.process_time() - cpu
            self.wall[part] += time.perf_counter() - wall

    def around(self, part: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def measured(*args: Any, **kwargs: Any) -> Any:
            with self.running(part):
                return call(*args, **kwargs)

        return measured


@contextmanager
def measure_parts() -> Iterator[Clock]:
    """Measure each part of an update inside the block."""
    from importlib import import_module

    clock = Clock()
    with ExitStack() as stack:
        for part, (module, name) in PARTS.items():
            holder = import_module(module)
            stack.enter_context(patch.object(holder, name, clock.around(part, getattr(holder, name))))
        yield clock


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    """Measure the cost, and the quality if requested, which takes minutes."""
    parser = arguments(__doc__)
    parser.add_argument("--data", type=Path, help="folder of UKPConvArgCrowdSample")
    parser.add_argument("--quality", action="store_true", help="also compare streaming with a refit")
    options = parser.parse_args(argv)
    corpus = [from_folder(options.data)] if options.data else []
    sources = [*corpus, simulated(*(SMALL if options.quick else LARGE))]
    result: dict[str, Any] = {"targets": TARGETS, "cost": {}, "quality": {}}
    with database():
        for source in sources:
            result["cost"][source.name] = cost(source)
            print_progress(f"{source.name}: {result['cost'][source.name]['whole_update']}")
        for source in [*corpus, simulated(*(SMALL if options.quick else LEARNABLE))] if options.quality else ():
            result["quality"][source.name] = quality(source)
            print_progress(f"{source.name}: {result['quality'][source.name]}")
    result["peak_megabytes"] = peak_megabytes()
    return publish(NAME, result, options)


def cost(source: Source) -> dict[str, Any]:
    """Refit on all but the last batches, then run one update for each of them."""
    first = len(source.labels) - ROUNDS * BATCH
    study = make_study(source, f"cost-{source.name.lower()}")
    study.add_judgements(source.labels.take(np.arange(first)))
    refit = one_update(study)
    steps = []
    for start in range(first, len(source.labels), BATCH):
        study.add_judgements(source.labels.take(np.arange(start, start + BATCH)))
        steps.append(one_update(study))
    after_a_restart = forget_and_update(study, source)
    share = median(steps, "cpu", "estimator") / refit["cpu"]["estimator from scratch"]
    return {
        "sizes": {"items": len(source.texts), "workers": len(study.workers), "labels": len(source.labels)},
        "kinds": [step["kind"] for step in steps],
        "whole_update": {"cpu": median(steps, "cpu", "whole"), "wall": median(steps, "wall", "whole")},
        "worst_update": {kind: max(step[kind]["whole"] for step in steps) for kind in ("cpu", "wall")},
        "parts_cpu": {part: median(steps, "cpu", part) for part in PARTS if part in steps[0]["cpu"]},
        "write_lock_ms": {
            "median": 1e3 * median(steps, "wall", "publish"),
            "worst": 1e3 * max(step["wall"]["publish"] for step in steps),
        },
        "estimator_share_of_refit": share,
        "refit": {"cpu": refit["cpu"], "wall": refit["wall"]["whole"]},
        "first_update_after_a_restart": after_a_restart["cpu"],
    }


def one_update(study: Study) -> dict[str, Any]:
    """Measure one call of update_one, whole and in parts."""
    from modelling.updater.update import update_one

    with measure_parts() as clock, clock.running("whole"):
        snapshot = update_one("benchmark", study.project)
    if snapshot is None:
        raise RuntimeError("The update was not published.")
    return {"cpu": dict(clock.cpu), "wall": dict(clock.wall), "kind": snapshot.kind}


def forget_and_update(study: Study, source: Source) -> dict[str, Any]:
    """Measure the first update after a restart, which has to load the arrays."""
    from modelling.updater import update

    study.add_judgements(source.labels.take(np.arange(BATCH)))
    with patch.object(update, "_cache", {}):
        return one_update(study)


def median(runs: list[dict[str, Any]], kind: str, part: str) -> float:
    return float(np.median([run[kind].get(part, 0.0) for run in runs]))


def quality(source: Source) -> dict[str, Any]:
    """Compare a model that learned the last tenth in batches with one fitted at once, on held-out labels."""
    from modelling.training.snapshots import current_snapshot, load_fitted_model
    from modelling.updater.update import update_one

    rng = np.random.default_rng(1)
    order = rng.permutation(len(source.labels))
    held, rest = np.split(order, [int(len(order) * HELD_OUT)])
    begun, streamed = np.split(rest, [int(len(rest) * (1 - STREAMED))])
    study = make_study(source, f"quality-{source.name.lower()}")
    study.add_judgements(source.labels.take(begun))
    update_one("benchmark", study.project)
    kinds: dict[str, int] = defaultdict(int)
    for start in range(0, len(streamed), BATCH):
        study.add_judgements(source.labels.take(streamed[start : start + BATCH]))
        snapshot = update_one("benchmark", study.project)
        kinds[snapshot.kind if snapshot else "none"] += 1
    online = score(load_fitted_model(current_snapshot(study.project)), study, source, held)
    refit = score(load_fitted_model(refitted(study)), study, source, held)
    return {
        "labels": {"begun": len(begun), "streamed": len(streamed), "held_out": len(held)},
        "updates": dict(kinds),
        "online": online,
        "refit": refit,
        "accuracy_lost": {who: refit[who]["accuracy"] - online[who]["accuracy"] for who in online},
        "log_loss_lost": {who: online[who]["log_loss"] - refit[who]["log_loss"] for who in online},
    }


def refitted(study: Study) -> Any:
    """Return a version fitted from scratch on the study as it is."""
    from annotation.storage import event_log
    from modelling.updater.update import update_one

    event_log.raise_inputs_revision(study.project.pk)
    snapshot = update_one("benchmark", study.project)
    if snapshot is None or snapshot.kind != "refit":
        raise RuntimeError("There was no refit.")
    return snapshot


def score(fitted: Any, study: Study, source: Source, held: np.ndarray) -> dict[str, dict[str, float]]:
    """Compute accuracy (without ties) and log loss on the held-out labels, for personal and consensus predictions."""
    from modelling.training.evaluation.scoreboard import sum_metrics

    test = source.labels.take(held)
    items = {int(pk): place for place, pk in enumerate(fitted.item_ids)}
    workers = {int(pk): place for place, pk in enumerate(fitted.worker_ids)}
    strangers = len(fitted.worker_ids)
    a, b = (np.array([items[study.items[i].pk] for i in side]) for side in (test.a, test.b))
    u = np.array([workers.get(study.workers[i].pk, strangers) for i in test.u])
    X_users = np.zeros((1, 1))
    found = {
        "personal": sum_metrics(fitted.model.predict_proba(u, a, b, X_users=X_users), test.y),
        "consensus": sum_metrics(fitted.model.predict_consensus_proba(a, b), test.y),
    }
    return {
        who: {"accuracy": sums.accuracy or 0.0, "log_loss": sums.mean_log_loss or 0.0} for who, sums in found.items()
    }


if __name__ == "__main__":
    main()
