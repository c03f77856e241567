"""Plotly figures as plain data, drawn by static/figures.js.

Colours are names of CSS custom properties (`--c1`), so figures follow the page's light or dark theme. Every figure has
a table with the same numbers: its own, or one that the page already shows.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from django.utils.translation import gettext as _

Trace = dict[str, Any]

MAX_HOVER_LENGTH = 100
MAX_KEY = 24  # characters of a key beside a bar or in a table with one line per row
DIGITS = 4
TICK_STEPS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10**9)
MAX_TICKS = 10


@dataclass(frozen=True)
class FigureTable:
    """The numbers of a figure, shown below it and offered as CSV."""

    columns: list[str]
    rows: list[list[Any]]


@dataclass(frozen=True)
class Figure:
    """One chart. `name` identifies it on the page and in file names; `description` is read by screen readers.

    `table` is given where the page has no other table with the same numbers.
    """

    name: str
    title: str
    description: str
    traces: list[Trace]
    layout: dict[str, Any] = field(default_factory=dict)
    height: int = 420
    table: FigureTable | None = None

    @property
    def plotly(self) -> dict[str, Any]:
        return {"data": self.traces, "layout": {**self.layout, "height": self.height}}

    @property
    def script_id(self) -> str:
        return f"figure-{self.name}"

    @property
    def canvas_id(self) -> str:
        return f"canvas-{self.name}"


def axis(title: str, **options: Any) -> dict[str, Any]:
    return {"title": {"text": title, "standoff": 12}, **options}


def rank_axis(ranks: Sequence[int]) -> dict[str, Any]:
    """Axis that starts at the first rank, with whole-number ticks; by default Plotly starts at 0 and shows halves."""
    first, last = ranks[0], ranks[-1]
    step = next(step for step in TICK_STEPS if (last - first) / step < MAX_TICKS)
    return axis(_("Rank"), tick0=first, dtick=step, range=[first - 0.5, last + 0.5])


def error_bars(half_widths: Iterable[float]) -> dict[str, Any]:
    """Thin symmetric error bars."""
    return {"type": "data", "array": rounded(half_widths), "color": "--edge", "thickness": 1, "width": 0}


def rounded(values: Iterable[float]) -> list[float]:
    """Round for display and replace NaN by 0, since JSON has no NaN."""
    return [round(float(value), DIGITS) for value in np.nan_to_num(np.asarray(list(values), dtype=float))]


def truncate(text: str) -> str:
    return text if len(text) <= MAX_HOVER_LENGTH else f"{text[:MAX_HOVER_LENGTH]}…"


def shorten_key(key: str) -> str:
    """The end of a long key, which is usually what tells keys apart."""
    return key if len(key) <= MAX_KEY else f"…{key[-MAX_KEY:]}"


def escape_label(text: str) -> str:
    """Shorten and escape a text for plotly, which interprets some HTML tags in labels."""
    return truncate(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
