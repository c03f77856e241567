"""A row of numbers as a small line in a picture; the table beside it says the same."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

WIDTH, HEIGHT, MARGIN = 320, 80, 6
ROWS = 30  # of the table; the middle of a long trace is thinned


@dataclass(frozen=True)
class Point:
    iteration: int
    value: float


@dataclass(frozen=True)
class Trace:
    """`line` is the points attribute of an SVG polyline."""

    line: str
    points: list[Point]
    first: float
    last: float
    width: int = WIDTH
    height: int = HEIGHT


def trace_of(values: Sequence[float]) -> Trace | None:
    """The course of these values; None where there is no course to draw."""
    numbers = np.asarray(values, dtype=float)
    if len(numbers) < 2 or not np.isfinite(numbers).all():
        return None
    across = np.linspace(MARGIN, WIDTH - MARGIN, len(numbers))
    low, span = numbers.min(), max(float(np.ptp(numbers)), 1e-12)
    down = HEIGHT - MARGIN - (HEIGHT - 2 * MARGIN) * (numbers - low) / span
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(across, down, strict=True))
    return Trace(line, _thinned(numbers), float(numbers[0]), float(numbers[-1]))


def _thinned(numbers: np.ndarray) -> list[Point]:
    kept = np.unique(np.linspace(0, len(numbers) - 1, min(ROWS, len(numbers))).astype(int))
    return [Point(int(at) + 1, float(numbers[at])) for at in kept]
