"""Helpers for all benchmarks: CPU time in Cholesky units, progress on stderr, one JSON result, paired intervals."""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from scipy import stats

RESULTS = Path(__file__).parent / "results"
UNIT_SIZE, UNIT_COUNT = 1000, 20  # one Cholesky unit: the CPU time of 20 factorisations of a 1000 x 1000 matrix

T = TypeVar("T")


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """Run `work`; return its result and the CPU seconds that all threads of this process spent."""
    start = time.process_time()
    result = work()
    return result, time.process_time() - start


@lru_cache(maxsize=1)
def cholesky_unit() -> float:
    """CPU seconds of one Cholesky unit, measured once per process after a warm-up."""
    unit_now()
    return unit_now()


def unit_now() -> float:
    """CPU seconds of one Cholesky unit now: the median of three measurements.

    The first measurement in a process is about twice the later ones, which reuse the memory of earlier results.
    """
    A = np.random.default_rng(0).standard_normal((UNIT_SIZE, UNIT_SIZE))
    A = A @ A.T + UNIT_SIZE * np.eye(UNIT_SIZE)

    def factorise() -> None:
        for _ in range(UNIT_COUNT):
            np.linalg.cholesky(A)

    np.linalg.cholesky(A)
    return float(np.median([timed(factorise)[1] for _ in range(3)]))


def in_units(seconds: float) -> float:
    """Convert CPU seconds to Cholesky units."""
    return seconds / cholesky_unit()


def peak_megabytes() -> float:
    """Return this process's peak resident memory, not counting its parent's memory before the fork."""
    status = Path("/proc/self/status")
    if status.exists():
        fields = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
        if "VmHWM" in fields:
            return float(fields["VmHWM"].split()[0]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def print_progress(message: str) -> None:
    """Print one line of progress to stderr."""
    print(message, file=sys.stderr, flush=True)


def paired(first: Sequence[float], second: Sequence[float]) -> dict[str, float]:
    """Return the mean difference between two paired series with its 95% t interval."""
    gaps = np.subtract(first, second)
    gaps = gaps[np.isfinite(gaps)]
    mean = float(gaps.mean()) if len(gaps) else float("nan")
    if len(gaps) < 2:
        return {"mean": mean, "low": float("nan"), "high": float("nan")}
    half = float(stats.t.ppf(0.975, len(gaps) - 1) * gaps.std(ddof=1) / np.sqrt(len(gaps)))
    return {"mean": mean, "low": mean - half, "high": mean + half}


def standard_error(values: Sequence[float]) -> float:
    """Return the standard error of the mean of the finite values."""
    finite = np.array(values)[np.isfinite(values)]
    return float(finite.std(ddof=1) / np.sqrt(len(finite))) if len(finite) > 1 else float("nan")


def rounded(value: Any, digits: int = 4) -> Any:
    """Convert to plain Python types with rounded numbers; NaN becomes None."""
    if isinstance(value, dict):
        return {str(key): rounded(each, digits) for key, each in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [rounded(each, digits) for each in value]
    if isinstance(value, float | np.floating):
        return round(float(value), digits) if np.isfinite(value) else None
    return int(value) if isinstance(value, np.integer) else value


def arguments(description: str | None) -> argparse.ArgumentParser:
    """Return a parser with the options that all benchmarks share."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="a small version that only shows that the benchmark works")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the result file")
    return parser


def publish(name: str, result: dict[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    """Print the result as JSON and, unless this is a quick run, write it to the results folder."""
    plain: dict[str, Any] = rounded({"benchmark": name, "quick": options.quick, **result})
    text = json.dumps(plain, indent=1)
    print(text, flush=True)
    if not options.quick:
        options.results.mkdir(parents=True, exist_ok=True)
        (options.results / f"{name}.json").write_text(text + "\n", encoding="utf-8")
    return plain
