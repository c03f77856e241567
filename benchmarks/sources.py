"""Bigger than memory: what a step costs, and what a fit holds, as labels in memory-mapped files grow a hundredfold.

Each size is written, a chunk at a time, and fitted in processes of its own, so that the peak of one says nothing of
another. Index arrays (where each user's labels begin, and the users of an epoch) and the users' means grow with the
users; everything above them should not.
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
from typing import Any

import numpy as np

from benchmarks.harness import arguments, peak_megabytes, publish, tell, timed
from benchmarks.speed import GIVEN_VARIANCE, N_COMPONENTS, TRUE_COMPONENTS, judge
from modelling.crowdgppl import CrowdGPPL, PairwiseLabels, SortedLabels, write_labels

NAME = "sources"
ITEMS, PER_USER, BATCH = 100, 10, 500
SIZES = (10**5, 10**6, 10**7)
ROUNDS = 3  # the smaller sizes are measured before and after the largest: neighbours on the machine come and go
QUICK_SIZES = (3_000, 9_000)
LONG_STUDY = 10**6  # labels from which one epoch is enough to measure
CHUNK_USERS = 5_000
HELD_USERS, HELD_EACH = 1_000, 5
MEGABYTE = 1024.0**2


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    """Every size, and how much the largest costs more than the smallest."""
    parser = arguments(__doc__)
    parser.add_argument("--write", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--fit", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.write:
        write_labels(options.folder, chunks(options.write))
        return {}
    if options.fit:
        return report(options.folder)
    sizes = QUICK_SIZES if options.quick else SIZES
    rows: dict[int, list[dict[str, float]]] = {size: [] for size in sizes}
    with tempfile.TemporaryDirectory() as folder:
        for size in sizes:
            in_a_process(["--write", str(size)], Path(folder) / str(size))
        for size in order_of(sizes, options.quick):
            rows[size].append(in_a_process(["--fit"], Path(folder) / str(size)))
            tell(f"{size:,} labels: {rows[size][-1]}")
    result = {f"{size} labels": medians(found) for size, found in rows.items()}
    first, last = result[f"{sizes[0]} labels"], result[f"{sizes[-1]} labels"]
    grown = {name: last[name] / first[name] for name in ("step_cpu_ms", "megabytes_above_index_and_means")}
    return publish(NAME, {**result, "largest_over_smallest": grown, "load_average": os.getloadavg()}, options)


def order_of(sizes: Sequence[int], quick: bool) -> list[int]:
    """The largest once, the others before and after it."""
    return list(sizes) if quick else [*sizes, *(list(sizes[:-1]) * (ROUNDS - 1))]


def in_a_process(task: list[str], folder: Path) -> dict[str, float]:
    """One task in a fresh process; what it printed."""
    command = [sys.executable, "-m", "benchmarks.sources", *task, "--folder", str(folder)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1]) if done.stdout.strip() else {}
    return found


def medians(rows: list[dict[str, float]]) -> dict[str, float]:
    """Of each figure over the measurements of one size."""
    return {"measured": len(rows)} | {name: float(np.median([row[name] for row in rows])) for name in rows[0]}


def truth() -> tuple[np.ndarray, np.ndarray]:
    """t and V, the same at every size."""
    rng = np.random.default_rng(0)
    t = rng.standard_normal(ITEMS) * 2.0
    return t, rng.standard_normal((ITEMS, TRUE_COMPONENTS)) * np.sqrt(GIVEN_VARIANCE / TRUE_COMPONENTS)


def drawn(users: np.ndarray, each: int, seed: int) -> PairwiseLabels:
    """Answers of these users; a user's taste depends on the number alone."""
    t, V = truth()
    W = np.stack([np.random.default_rng((1, int(u))).standard_normal(TRUE_COMPONENTS) for u in users])
    rng = np.random.default_rng((seed, int(users[0])))
    own = np.repeat(np.arange(len(users)), each)
    a = rng.integers(0, ITEMS, len(own))
    b = (a + rng.integers(1, ITEMS, len(own))) % ITEMS
    z = t[a] - t[b] + ((V[a] - V[b]) * W[own]).sum(axis=1) + rng.standard_normal(len(own))
    return PairwiseLabels(users[own], a, b, (z > 0).astype(float))


def chunks(n_labels: int) -> Iterator[PairwiseLabels]:
    """The labels of some thousand users at a time."""
    n_users = n_labels // PER_USER
    for begin in range(0, n_users, CHUNK_USERS):
        yield drawn(np.arange(begin, min(begin + CHUNK_USERS, n_users)), PER_USER, seed=2)
        if begin % (20 * CHUNK_USERS) == 0 and begin:
            tell(f"written: {begin / n_users:.0%}")


def report(folder: Path) -> dict[str, float]:
    """One fit of the labels in a folder, printed for the process that asked."""
    before = peak_megabytes()
    source, indexing = timed(lambda: SortedLabels.open(folder))
    clock = Clock()
    epochs = 1 if len(source) >= LONG_STUDY else 25
    model = CrowdGPPL(
        n_components=N_COMPONENTS,
        personal_variance=GIVEN_VARIANCE,
        batch_size=BATCH,
        max_iterations=epochs,
        progress=clock,
    )
    _, seconds = timed(lambda: model.fit(source, n_items=ITEMS))
    peak = peak_megabytes()
    index = (source.index.start.nbytes + source.index.present.nbytes) / MEGABYTE
    means = source.n_users * N_COMPONENTS * 8 / MEGABYTE
    held = drawn(np.arange(min(HELD_USERS, source.n_users)), HELD_EACH, seed=3)
    found = {
        "steps": len(clock.steps),
        "step_cpu_ms": 1000 * float(np.median(clock.steps)),
        "indexing_cpu_seconds": indexing,
        "fit_cpu_seconds": seconds,
        "before_the_fit_megabytes": before,
        "peak_megabytes": peak,
        "index_megabytes": index,
        "means_megabytes": means,
        "megabytes_above_index_and_means": peak - index - means,
        **judge(model, held),
    }
    print(json.dumps(found))
    return found


class Clock:
    """CPU seconds of each step on the items, the first left out: it follows other work."""

    def __init__(self) -> None:
        self.steps: list[float] = []
        self.last, self.stage, self.told = time.process_time(), "", time.monotonic()

    def __call__(self, stage: str, iteration: int, most: int, change: float) -> None:
        now = time.process_time()
        if stage == self.stage == "fit":
            self.steps.append(now - self.last)
        self.last, self.stage = now, stage
        if time.monotonic() - self.told > 10:
            self.told = time.monotonic()
            tell(f"{stage}: {iteration} of at most {most}")


if __name__ == "__main__":
    main()
