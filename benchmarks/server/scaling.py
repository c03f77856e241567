"""Background updates of 50 new labels in studies of 10^4 to 10^6 labels in SQLite, and a fit of 10^7 from the database.

    python -m benchmarks.server.scaling [--workers-fixed] [--large [LABELS]]

Each size is measured in a new process: first an update that has to load the version, then further updates. Rows are
written by bulk SQL, with a hash chain that is not valid. Workers give 100 labels each, or with --workers-fixed 1,000
workers share all labels. --large fits 10^7 labels, or the given number, and reports the peak memory.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.harness import arguments, peak_megabytes, print_progress, publish
from benchmarks.server.rows import WORDS, Study, open_database
from modelling.crowdgppl import PairwiseLabels

if TYPE_CHECKING:
    from annotation.models import Project
    from modelling.models import ModelSnapshot

NAME = "scaling"
ITEMS, QUICK_ITEMS = 1000, 30
SIZES, QUICK_SIZES = (10**4, 10**5, 10**6), (600, 1200)
LARGE, QUICK_LARGE = 10**7, 2000
LABELS_EACH, FIXED_WORKERS = 100, 1000
LABELS_EACH_LARGE = 50
BATCH, WARM_UPDATES = 50, 5
HELD_OUT = 20_000
CHUNK = 50_000
SLUG = "scaling"
TASTES = 3
INSERT = (
    "INSERT INTO annotation_judgement (uuid, project_id, worker_id, item_lo_id, item_hi_id, round, choice, skip_reason,"
    " source, clock_doubtful, late, sequence, previous_hash, hash, created_at)"
    " VALUES (%s, %s, %s, %s, %s, %s, %s, '', 'simulated', 0, 0, %s, '', '', '2026-01-01')"
)
TARGETS = {"cpu_seconds": 1.5, "ratio_of_sizes": 1.5, "large_megabytes": 1000, "log_loss_lost": 0.005}


class Crowd:
    """A crowd with a consensus and three tastes; any number of labels can be drawn from it."""

    def __init__(self, n_items: int, n_workers: int) -> None:
        rng = np.random.default_rng(0)
        self.t, self.v = rng.standard_normal(n_items), rng.standard_normal((TASTES, n_items))
        self.w = 0.7 * rng.standard_normal((n_workers, TASTES))

    def draw(self, rng: np.random.Generator, n: int, workers: np.ndarray | None = None) -> PairwiseLabels:
        """Draw labels of random pairs by these workers, or by random workers."""
        n_items, n_workers = len(self.t), len(self.w)
        u = rng.integers(0, n_workers, n) if workers is None else workers
        a = rng.integers(0, n_items, n)
        b = (a + rng.integers(1, n_items, n)) % n_items
        z = self.t[a] - self.t[b] + (self.w[u] * (self.v[:, a] - self.v[:, b]).T).sum(axis=1)
        return PairwiseLabels(u, a, b, (z + rng.standard_normal(n) > 0).astype(np.float64))


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    """Measure every size in new processes."""
    parser = arguments(__doc__)
    parser.add_argument("--workers-fixed", action="store_true", help="1,000 workers share all labels")
    parser.add_argument("--large", type=int, nargs="?", const=LARGE, help="also fit 10^7 labels from the database")
    parser.add_argument("--part", choices=PARTS, help=argparse.SUPPRESS)
    parser.add_argument("--labels", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.part:
        open_database(Path(os.environ["CONCORD_DATA"]))
        found = PARTS[options.part](options)
        print(json.dumps(found))
        return found
    sizes = QUICK_SIZES if options.quick else SIZES
    result: dict[str, Any] = {"targets": TARGETS, "items": items_of(options), "updates": {}}
    for n_labels in sizes:
        found = {**run(options, n_labels, "fit"), "update": run(options, n_labels, "update")}
        found["quality"] = run(options, n_labels, "quality")
        result["updates"][n_labels] = found
        print_progress(f"{n_labels:,} labels: {found}")
    updates = [each["update"] for each in result["updates"].values()]
    result["ratio_of_sizes"] = {
        name: max(each[name] for each in updates) / min(each[name] for each in updates)
        for name in ("fresh_cpu_seconds", "warm_cpu_seconds", "peak_megabytes")
    }
    if options.large:
        result["large"] = run(options, QUICK_LARGE if options.quick else options.large, "fit")
    return publish(NAME, result, options)


_folders: dict[int, tempfile.TemporaryDirectory[str]] = {}


def run(options: argparse.Namespace, n_labels: int, part: str) -> dict[str, Any]:
    """Run one part in a process with the database of this size."""
    if n_labels not in _folders:
        _folders.clear()
        _folders[n_labels] = tempfile.TemporaryDirectory(prefix="concord-bench-")
    command = [sys.executable, "-m", "benchmarks.server.scaling", "--part", part, "--labels", str(n_labels)]
    flags = [f"--{name}" for name in ("quick", "workers-fixed") if getattr(options, name.replace("-", "_"))]
    place = {"CONCORD_DATA": _folders[n_labels].name, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    environment = {**os.environ, **place, "LOG_LEVEL": "WARNING"}
    done = subprocess.run([*command, *flags], stdout=subprocess.PIPE, text=True, check=True, env=environment)
    return dict(json.loads(done.stdout.strip().splitlines()[-1]))


def items_of(options: argparse.Namespace) -> int:
    return QUICK_ITEMS if options.quick else ITEMS


def crowd_of(options: argparse.Namespace) -> Crowd:
    each = LABELS_EACH_LARGE if options.labels > max(SIZES) else LABELS_EACH
    n_workers = FIXED_WORKERS if options.workers_fixed else max(3, options.labels // (10 if options.quick else each))
    return Crowd(items_of(options), n_workers)


# Parts: each runs in its own process ----------------------------------------------------------------------------------


def fit(options: argparse.Namespace) -> dict[str, Any]:
    """Write the rows of a study and publish its first version."""
    from modelling.updater.update import update_one

    crowd = crowd_of(options)
    began = time.perf_counter()
    project = write_study(crowd, options.labels)
    seconds = time.perf_counter() - began
    print_progress(f"wrote {options.labels:,} judgements in {seconds:.0f} s, {peak_megabytes():.0f} MB")
    began = time.process_time()
    snapshot = published(update_one("benchmark", project, report_to_terminal()))
    return {
        "labels": options.labels,
        "workers": len(crowd.w),
        "fit_cpu_seconds": time.process_time() - began,
        "fit_peak_megabytes": peak_megabytes(),
        "kind": snapshot.kind,
        "included": snapshot.included,
        "converged": snapshot.diagnostics["converged"],
        "database_megabytes": sum(f.stat().st_size for f in Path(os.environ["CONCORD_DATA"]).rglob("*.sqlite3*"))
        / 2**20,
    }


def update(options: argparse.Namespace) -> dict[str, Any]:
    """Measure an update with fifty new labels in a new process, then several more."""
    from modelling.updater.update import update_one

    crowd, study, rng = crowd_of(options), read_study(), np.random.default_rng(options.labels + 1)
    seconds, kinds, stages = [], [], []
    start_up = peak_megabytes()
    for _ in range(1 + WARM_UPDATES):
        study.add_judgements(crowd.draw(rng, BATCH))
        began = time.process_time()
        snapshot = published(update_one("benchmark", study.project))
        seconds.append(time.process_time() - began)
        kinds.append(snapshot.kind)
        stages.append(snapshot.diagnostics["seconds"])
    return {
        "fresh_cpu_seconds": seconds[0],
        "warm_cpu_seconds": float(np.median(seconds[1:])),
        "worst_cpu_seconds": max(seconds),
        "peak_megabytes": peak_megabytes(),
        "megabytes_before": start_up,
        "kinds": kinds,
        "wall_seconds_by_stage": stages[-1],
    }


def quality(options: argparse.Namespace) -> dict[str, Any]:
    """Held-out log loss of the version that learned the last labels in steps, and of a refit."""
    from annotation.storage import event_log
    from modelling.training.evaluation.scoreboard import sum_metrics
    from modelling.training.snapshots import current_snapshot, load_fitted_model
    from modelling.updater.update import update_one

    crowd, study = crowd_of(options), read_study()
    test = crowd.draw(np.random.default_rng(7), HELD_OUT)
    losses = {}
    for name in ("step", "refit"):
        if name == "refit":
            event_log.raise_inputs_revision(study.project.pk)
            published(update_one("benchmark", study.project, report_to_terminal()))
        fitted = load_fitted_model(current_snapshot(study.project))
        u = np.array([fitted.worker_index.get(study.workers[k].pk, len(fitted.worker_ids)) for k in test.u])
        personal = fitted.model.predict_proba(u, test.a, test.b, X_users=np.zeros((1, 1)))
        consensus = fitted.model.predict_consensus_proba(test.a, test.b)
        losses[name] = [sum_metrics(p, test.y).mean_log_loss or 0.0 for p in (personal, consensus)]
    lost = {who: losses["step"][n] - losses["refit"][n] for n, who in enumerate(("personal", "consensus"))}
    return {"held_out": HELD_OUT, "log_loss": losses, "log_loss_lost": lost}


PARTS = {"fit": fit, "update": update, "quality": quality}


def published(snapshot: ModelSnapshot | None) -> ModelSnapshot:
    if snapshot is None:
        raise RuntimeError("The update was not published.")
    return snapshot


def report_to_terminal() -> Any:
    """Print progress at most every ten seconds."""
    last = [time.monotonic()]

    def report(what: str, share: float, detail: str = "") -> None:
        if time.monotonic() - last[0] > 10:
            last[0] = time.monotonic()
            print_progress(f"{what} {share:.0%}{detail}, {peak_megabytes():.0f} MB")

    return report


# Rows -----------------------------------------------------------------------------------------------------------------


def write_study(crowd: Crowd, n_labels: int) -> Project:
    """Write items, workers and judgements, worker by worker; the events are not chained by hashes."""
    from django.db import connection, transaction

    from annotation import services
    from annotation.models import EventHead, Item, Worker

    rng = np.random.default_rng(1)
    project = services.create_project(owner=None, slug=SLUG, title=SLUG, state="open", update_batch=1)
    texts = [" ".join(rng.choice(WORDS, size=rng.integers(8, 40))) + f" {n}." for n in range(len(crowd.t))]
    Item.objects.bulk_create(
        [Item(project=project, key=f"item-{n}", text=text, group="one") for n, text in enumerate(texts)], batch_size=500
    )
    for start in range(0, len(crowd.w), 10_000):
        count = min(10_000, len(crowd.w) - start)
        Worker.objects.bulk_create([Worker(project=project) for _ in range(count)], batch_size=500)
    items, workers = (
        np.array(kind.objects.filter(project=project).order_by("pk").values_list("pk", flat=True))
        for kind in (Item, Worker)
    )
    done = 0
    while done < n_labels:
        rows = np.arange(done, min(done + CHUNK, n_labels))
        labels = crowd.draw(rng, len(rows), rows * len(workers) // n_labels)
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.executemany(INSERT, list(judgement_rows(project.pk, items, workers, labels, done)))
        done += len(labels)
    EventHead.objects.filter(project=project).update(sequence=n_labels)
    return project


def judgement_rows(
    project: int, items: np.ndarray, workers: np.ndarray, labels: PairwiseLabels, done: int
) -> Iterator[tuple[Any, ...]]:
    """The columns of INSERT; every judgement has its own round."""
    a, b = items[labels.a], items[labels.b]
    lo, hi = np.minimum(a, b), np.maximum(a, b)
    won = np.where(a < b, labels.y, 1.0 - labels.y)
    columns = zip(workers[labels.u].tolist(), lo.tolist(), hi.tolist(), won.tolist(), strict=True)
    for sequence, (worker, low, high, y) in enumerate(columns, start=done + 1):
        yield f"{sequence:032x}", project, worker, low, high, sequence, "lo" if y else "hi", sequence


def read_study() -> Study:
    """Read the study that `write_study` wrote."""
    from annotation.models import Item, Project, Worker

    project = Project.objects.get(slug=SLUG)
    items = list(Item.objects.filter(project=project).order_by("pk"))
    workers = list(Worker.objects.filter(project=project).order_by("pk"))
    return Study(project, items, workers, n_judgements=10**9)


if __name__ == "__main__":
    main()
