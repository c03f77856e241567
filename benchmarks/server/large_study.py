"""A large study under a memory limit: 2,000 items and 1,000,000 labels in a process with 2 GB.

Measures the parts of an update that grow with the study: computing features, fitting the models from scratch and
ranking the items. The process limits its own address space, like `prlimit --as`; if memory runs out, the result is the
message that the study's pages would show.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import arguments, peak_megabytes, print_progress, publish
from benchmarks.server.rows import WORDS, database
from modelling.crowdgppl import PairwiseLabels

NAME = "large_study"
SIZES, QUICK_SIZES = (2000, 10_000, 1_000_000), (60, 30, 900)  # items, workers, labels
LIMIT_MEGABYTES = 2048


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    """Run one update in its own process."""
    parser = arguments(__doc__)
    parser.add_argument("--limit", type=int, default=LIMIT_MEGABYTES, help="memory limit of the process in megabytes")
    parser.add_argument("--update", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    sizes = QUICK_SIZES if options.quick else SIZES
    if options.update:
        return report(*sizes, options.limit)
    command = [sys.executable, "-m", "benchmarks.server.large_study", "--update", "--limit", str(options.limit)]
    done = subprocess.run(
        [*command, *(["--quick"] if options.quick else [])], stdout=subprocess.PIPE, text=True, check=True
    )
    found = json.loads(done.stdout.strip().splitlines()[-1])
    items, workers, labels = sizes
    return publish(NAME, {"items": items, "workers": workers, "labels": labels, **found}, options)


def draw_study(n_items: int, n_workers: int, n_labels: int) -> tuple[list[str], PairwiseLabels]:
    """Draw texts, and labels that follow one score per text."""
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(WORDS, size=rng.integers(8, 40))) + f" {n}." for n in range(n_items)]
    t = rng.standard_normal(n_items)
    u, a = np.sort(rng.integers(0, n_workers, n_labels)), rng.integers(0, n_items, n_labels)
    b = (a + rng.integers(1, n_items, n_labels)) % n_items
    return texts, PairwiseLabels(u, a, b, (t[a] - t[b] + rng.standard_normal(n_labels) > 0).astype(float))


def report(n_items: int, n_workers: int, n_labels: int, limit: int) -> dict[str, Any]:
    """Run the update under its limit and print the result for the parent process."""
    with database():
        found = limited_update(n_items, n_workers, n_labels, limit)
    print(json.dumps(found))
    return found


def limited_update(n_items: int, n_workers: int, n_labels: int, limit: int) -> dict[str, Any]:
    """Return whether the update finished, its failure message, and what it needed."""
    from annotation.models import Item, Worker
    from modelling.training.inputs import Inputs
    from modelling.training.settings import InvalidSettings, ModelSettings
    from modelling.training.snapshots import consensus_scores
    from modelling.training.training_state import TrainingState
    from modelling.updater.failure_messages import failure_message

    texts, labels = draw_study(n_items, n_workers, n_labels)
    items = [Item(pk=n + 1, text=text) for n, text in enumerate(texts)]
    workers = [Worker(pk=n + 1) for n in range(n_workers)]
    inputs = Inputs.from_labels(items, workers, labels)
    resource.setrlimit(resource.RLIMIT_AS, (limit * 2**20, limit * 2**20))
    began, seconds, ended = time.process_time(), {}, {"finished": True, "words": ""}
    try:
        trained = TrainingState.fit(inputs, ModelSettings(), ProgressPrinter())
        seconds["learning"] = time.process_time() - began
        scores = consensus_scores(trained.fitted, seed=0)
        seconds["ranking"] = time.process_time() - began - seconds["learning"]
        ended |= {
            "ranked": len(scores.rank),
            "stored_megabytes": sum(a.nbytes for a in trained.to_arrays().values()) / 2**20,
        }
    except (InvalidSettings, MemoryError, ImportError, OSError) as error:
        ended |= {"finished": False, "words": failure_message(error)}
    space = {
        "limit_megabytes": limit,
        "peak_address_space_megabytes": address_space(),
        "peak_megabytes": peak_megabytes(),
    }
    return {**ended, "cpu_seconds": seconds, **space}


class ProgressPrinter:
    """Print progress at most every ten seconds."""

    def __init__(self) -> None:
        self.last = time.monotonic()

    def __call__(self, stage: str, iteration: int = 0, most: int = 0, change: float = 0.0, _processes: int = 1) -> None:
        if time.monotonic() - self.last > 10:
            self.last = time.monotonic()
            print_progress(f"{stage} {iteration} of at most {most}, change {change:.3g}")


def address_space() -> float:
    """Return the peak address space of this process in megabytes; 0 where the system does not report it."""
    status = Path("/proc/self/status")
    fields = (
        dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line) if status.exists() else {}
    )
    return float(fields["VmPeak"].split()[0]) / 1024 if "VmPeak" in fields else 0.0


if __name__ == "__main__":
    main()
