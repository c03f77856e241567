"""How long another study waits while a study of 5,000 items and 200,000 judgements is fitted (SQLite, one updater).

    python -m benchmarks.server.long_update [--items N] [--labels N] [--seconds LIMIT]

A small study gets ten judgements again and again until the large one has its first version, or until the limit. Also
measured: the memory of the process that fits the large study, and the least time left on its lease.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.harness import arguments, print_progress, publish
from benchmarks.load.installation import ROOT, descendants, die_with_parent, is_alive
from benchmarks.load.waiting import wait_until
from benchmarks.server.rows import Study, make_study, open_database, simulated
from benchmarks.server.scaling import Crowd, write_study

if TYPE_CHECKING:
    from annotation.models import Project
    from modelling.models import ModelSnapshot

NAME = "long_update"
SIZES, QUICK_SIZES = (5000, 200_000), (600, 2000)  # items (the most that can be fitted), labels
LABELS_EACH, BATCH, SMALL = 100, 10, (30, 10, 2000)
LIMIT, PATIENCE, PAUSE = 4 * 3600.0, 1800.0, 5.0


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    """Fit a large study with a real updater and measure how it affects others."""
    parser = arguments(__doc__)
    parser.add_argument("--items", type=int)
    parser.add_argument("--labels", type=int)
    parser.add_argument("--seconds", type=float, default=LIMIT, help="stop after this time even if the fit is not done")
    options = parser.parse_args(argv)
    items, labels = QUICK_SIZES if options.quick else SIZES
    items, labels = options.items or items, options.labels or labels
    with tempfile.TemporaryDirectory(prefix="concord-bench-") as folder:
        open_database(Path(folder))
        large = write_study(Crowd(items, max(3, labels // LABELS_EACH)), labels)
        source = simulated(*SMALL)
        small, given = make_study(source, "small"), iter(range(0, len(source.labels), BATCH))

        def add() -> None:
            first = next(given)
            small.add_judgements(source.labels.take(np.arange(first, first + BATCH)))

        add()
        command = [sys.executable, "manage.py", "update_models"]
        with subprocess.Popen(command, cwd=ROOT, env=dict(os.environ), preexec_fn=die_with_parent) as updater:
            try:
                found = measure(updater.pid, large, small, add, options.seconds)
            finally:
                updater.kill()
    return publish(NAME, {"items": items, "labels": labels, **found}, options)


def measure(updater: int, large: Project, small: Study, add: Callable[[], None], limit: float) -> dict[str, Any]:
    """Add judgements to the small study until the large one has a version."""
    from modelling.models import UpdateState
    from modelling.updater.leases import updater_is_alive

    wait_until(lambda: bool(descendants(updater)), PATIENCE, "no child process was started")
    began, waits, peak, lease, alive = time.perf_counter(), list[float](), 0.0, list[float](), list[bool]()
    (child, *_), version = descendants(updater), None
    while version is None and time.perf_counter() - began < limit:
        add()
        waits.append(wait_until(lambda: is_current(small.project), PATIENCE, "the small study was not updated"))
        state = UpdateState.objects.get(project=large)
        version = newest(large)
        if version is None and state.lease_until is not None:
            lease.append(state.lease_until.timestamp() - time.time())
            alive.append(updater_is_alive())
            peak = max(peak, peak_of(child))
        print_progress(f"waited {waits[-1]:.1f} s; large study: {state.progress}, {peak:.0f} MB")
        if is_alive(child):
            time.sleep(PAUSE)
    return {
        "finished": version is not None,
        "seconds": version.seconds if version else time.perf_counter() - began,
        "peak_megabytes": peak,
        "least_lease_seconds_left": min(lease, default=None),
        "updater_always_alive": all(alive),
        "other_study": {"updates": len(waits), "median_seconds": float(np.median(waits)), "worst_seconds": max(waits)},
    }


def newest(project: Project) -> ModelSnapshot | None:
    from modelling.models import ModelSnapshot

    return ModelSnapshot.objects.filter(project=project).first()


def is_current(project: Project) -> bool:
    """Whether the newest version includes every judgement."""
    from annotation.models import EventHead

    version = newest(project)
    return version is not None and version.last_sequence == EventHead.objects.get(project=project).sequence


def peak_of(pid: int) -> float:
    """The peak resident memory of another process in megabytes; 0 if it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    fields = dict(line.split(":", 1) for line in lines if ":" in line)
    return float(fields.get("VmHWM", "0").split()[0]) / 1024


if __name__ == "__main__":
    main()
