"""Figures for plotly as plain data. Colours are names of the style sheet's (`--c1`): dark pages get dark pictures.

The script that draws them is static/pictures.js. Every picture stands beside a table with the same numbers.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from django.utils.translation import gettext as _

Trace = dict[str, Any]

LONGEST_HOVER = 100
DIGITS = 4
FEW_PLACES = 10


@dataclass(frozen=True)
class Table:
    """The numbers of a picture, for reading and for a file."""

    columns: list[str]
    rows: list[list[Any]]


@dataclass(frozen=True)
class Picture:
    """One figure: `name` is its place in the page and the name of its file, `words` say it to who cannot see it.

    `table` is there where the page has no other table with the same numbers.
    """

    name: str
    title: str
    words: str
    traces: list[Trace]
    layout: dict[str, Any] = field(default_factory=dict)
    height: int = 420
    table: Table | None = None

    @property
    def figure(self) -> dict[str, Any]:
        return {"data": self.traces, "layout": {**self.layout, "height": self.height}}

    @property
    def script_id(self) -> str:
        return f"figure-{self.name}"

    @property
    def canvas_id(self) -> str:
        return f"canvas-{self.name}"


def axis(title: str, **options: Any) -> dict[str, Any]:
    return {"title": {"text": title}, **options}


def ranks_axis(ranks: Sequence[int]) -> dict[str, Any]:
    """An axis of whole places: of a few of them plotly would show halves."""
    few = ranks[-1] - ranks[0] < FEW_PLACES
    return axis(_("Rank"), **({"dtick": 1, "range": [ranks[0] - 1, ranks[-1] + 1]} if few else {}))


def error_bars(reach: Iterable[float]) -> dict[str, Any]:
    """Thin lines that far to both sides of each point."""
    return {"type": "data", "array": numbers(reach), "color": "--edge", "thickness": 1, "width": 0}


def numbers(values: Iterable[float]) -> list[float]:
    """As a page needs them: short, and nothing that is not a number."""
    return [round(float(value), DIGITS) for value in np.nan_to_num(np.asarray(list(values), dtype=float))]


def shortened(text: str) -> str:
    return text if len(text) <= LONGEST_HOVER else f"{text[:LONGEST_HOVER]}…"


def plain(text: str) -> str:
    """A text that plotly shows as it is: it reads a few tags in labels, and item texts are anybody's."""
    return shortened(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
