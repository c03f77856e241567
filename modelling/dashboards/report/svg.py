"""Draw the figures of pages as SVG, for documents without scripts.

Supports what the pages' figures use: scatter and bar traces, error bars, categories, custom ticks and annotations.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import unescape
from itertools import pairwise
from math import ceil, floor, log10
from typing import Any

from django.utils.formats import number_format
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from modelling.dashboards.common.figures import Figure, Trace

WIDTH = 680  # of an A4 page with margins, in CSS pixels
TOP, RIGHT, BOTTOM = 24, 20, 56
FONT, CHARACTER = 11, 6.0  # font size, and approximate width of a character
TICKS = 6
DASHES = {"dash": "6 4", "dot": "2 3"}
COLOURS = {  # the light colours of static/concord.css
    "--ink": "#16211f", "--soft": "#53615d", "--line": "#d8ddd6", "--edge": "#77857f", "--accent": "#0d5c58",
    "--c1": "#0d56c2", "--c2": "#7d1206", "--c3": "#2a9969", "--c4": "#6a0f6e",
}  # fmt: skip


@dataclass(frozen=True)
class Scale:
    """Maps values of an axis to pixels, with its ticks."""

    low: float
    high: float
    start: float
    end: float
    ticks: list[tuple[float, str]]
    categories: dict[Any, int]

    def __call__(self, value: Any) -> float:
        number = self.categories.get(value, value)
        share = (float(number) - self.low) / ((self.high - self.low) or 1.0)
        return round(self.start + share * (self.end - self.start), 2)


def draw(figure: Figure) -> SafeString:
    """The figure as an SVG element with its description."""
    layout, height = figure.layout, figure.height
    y_values, x_values = (_values(figure.traces, name) for name in ("y", "x"))
    y = _scale(layout.get("yaxis", {}), y_values, height - BOTTOM, TOP)
    x = _scale(layout.get("xaxis", {}), x_values, _left_margin(y), WIDTH - RIGHT)
    parts = [_axes(x, y, layout, height)]
    parts += [_bars(trace, x, y) if trace["type"] == "bar" else _points(trace, x, y) for trace in figure.traces]
    parts += [_annotation(each, x, y) for each in layout.get("annotations", [])]
    if layout.get("showlegend", True) and len(figure.traces) > 1:
        parts.append(_legend(figure.traces, x))
    return format_html(
        '<svg viewBox="0 0 {} {}" width="{}" height="{}" role="img" aria-label="{}" font-family="sans-serif" '
        'font-size="{}">{}</svg>',
        WIDTH, height, WIDTH, height, figure.description, FONT, SafeString("".join(parts)),
    )  # fmt: skip


def _values(traces: Sequence[Trace], name: str) -> list[Any]:
    """All values of one axis, with the ends of error bars."""
    values: list[Any] = []
    for trace in traces:
        bars = trace.get(f"error_{name}", {}).get("array", [])
        values += trace[name]
        for value, half in zip(trace[name], bars, strict=False):
            values += [value - half, value + half]
        if trace["type"] == "bar" and name == "y":
            values.append(0.0)
    return values


def _scale(axis: dict[str, Any], values: list[Any], start: float, end: float) -> Scale:
    if axis.get("type") == "category":
        names = list(dict.fromkeys(values))
        ticks = [(float(place), str(name)) for place, name in enumerate(names)]
        places = {name: place for place, name in enumerate(names)}
        return Scale(-0.5, len(names) - 0.5, start, end, ticks, places)
    low, high = axis.get("range") or (min(values, default=0.0), max(values, default=1.0))
    if axis.get("rangemode") == "tozero":
        low, high = min(low, 0.0), max(high, 0.0)
    if "range" not in axis:
        margin = 0.03 * ((high - low) or 1.0)
        high += margin
        low -= 0.0 if axis.get("rangemode") == "tozero" and low == 0.0 else margin
    if "tickvals" in axis:
        ticks = [(float(at), _plain(text)) for at, text in zip(axis["tickvals"], axis["ticktext"], strict=True)]
    else:
        ticks = _ticks(min(low, high), max(low, high), axis.get("tick0", 0.0), axis.get("dtick"))
    return Scale(low, high, start, end, ticks, {})


def _ticks(low: float, high: float, first: float, step: float | None) -> list[tuple[float, str]]:
    """Ticks at round numbers within the range."""
    if step is None:
        rough = ((high - low) or 1.0) / TICKS
        unit = 10.0 ** floor(log10(rough))
        step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= rough)
    digits = max(0, -floor(log10(step)))
    places = range(ceil((low - first) / step - 1e-9), floor((high - first) / step + 1e-9) + 1)
    return [(first + place * step, number_format(first + place * step, digits)) for place in places]


def _plain(label: str) -> str:
    """Convert an HTML-escaped Plotly label to plain text."""
    return unescape(label).replace("<br>", " ").replace("  ", "\N{EM SPACE}")


def _left_margin(y: Scale) -> float:
    return 44 + CHARACTER * max((len(text) for _at, text in y.ticks), default=0)


def _colour(name: Any, default: str = "--c1") -> str:
    return COLOURS.get(name, COLOURS[default])


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, width: float = 1.0) -> SafeString:
    tag = '<line x1="{}" y1="{}" x2="{}" y2="{}" stroke="{}" stroke-width="{}"/>'
    return format_html(tag, x1, y1, x2, y2, colour, width)


def _text(x: float, y: float, anchor: str, text: str, colour: str = "--soft") -> SafeString:
    tag = '<text x="{}" y="{}" text-anchor="{}" fill="{}">{}</text>'
    return format_html(tag, x, y, anchor, _colour(colour, "--ink"), text)


def _axes(x: Scale, y: Scale, layout: dict[str, Any], height: int) -> SafeString:
    line, edge = COLOURS["--line"], COLOURS["--edge"]
    parts = []
    for at, text in y.ticks:
        parts += [_line(x.start, y(at), x.end, y(at), line, 0.5), _text(x.start - 8, y(at) + 4, "end", text)]
    for at, text in x.ticks:
        place = x.start + (x.end - x.start) * (at - x.low) / ((x.high - x.low) or 1.0)
        parts += [_line(place, y.start, place, y.start + 4, edge), _text(place, y.start + 18, "middle", text)]
    parts += [_line(x.start, y.start, x.end, y.start, edge), _line(x.start, y.start, x.start, y.end, edge)]
    titles = [layout.get(name, {}).get("title", {}).get("text", "") for name in ("xaxis", "yaxis")]
    parts.append(_text((x.start + x.end) / 2, height - 14, "middle", _plain(titles[0]), "--ink"))
    middle = (y.start + y.end) / 2
    tag = '<text transform="translate(14 {}) rotate(-90)" text-anchor="middle" fill="{}">{}</text>'
    parts.append(format_html(tag, middle, COLOURS["--ink"], _plain(titles[1])))
    return SafeString("".join(parts))


def _bars(trace: Trace, x: Scale, y: Scale) -> SafeString:
    width = 0.7 * (x.end - x.start) / max(len(trace["x"]), 1)
    colour, tag = _colour(trace["marker"]["color"]), '<rect x="{}" y="{}" width="{}" height="{}" fill="{}"/>'
    rows = [
        (round(x(at) - width / 2, 2), y(value), round(width, 2), round(abs(y(0.0) - y(value)), 2), colour)
        for at, value in _pairs(trace)
    ]
    return format_html_join("", tag, rows)


def _pairs(trace: Trace) -> list[tuple[Any, Any]]:
    return list(zip(trace["x"], trace["y"], strict=True))


def _points(trace: Trace, x: Scale, y: Scale) -> SafeString:
    """Draw a trace: error bars, then the line, then the markers."""
    mode, marker = trace.get("mode", "markers"), trace.get("marker", {})
    colour = _colour(trace.get("line", {}).get("color", marker.get("color")))
    parts = _error_bars(trace, x, y)
    if "lines" in mode:
        dash = DASHES.get(trace["line"].get("dash", ""), "none")
        points = " ".join(f"{x(at)},{y(value)}" for at, value in _pairs(trace))
        tag = '<polyline points="{}" fill="none" stroke="{}" stroke-width="2" stroke-dasharray="{}"/>'
        parts.append(format_html(tag, points, colour, dash))
    if "markers" in mode:
        radius, opacity = marker.get("size", 5) / 2, marker.get("opacity", 1)
        tag = '<circle cx="{}" cy="{}" r="{}" fill="{}" fill-opacity="{}"/>'
        parts += [format_html(tag, x(at), y(value), radius, colour, opacity) for at, value in _pairs(trace)]
    return SafeString("".join(parts))


def _error_bars(trace: Trace, x: Scale, y: Scale) -> list[SafeString]:
    edge = COLOURS["--edge"]
    across = zip(_pairs(trace), trace.get("error_x", {}).get("array", []), strict=False)
    along = zip(_pairs(trace), trace.get("error_y", {}).get("array", []), strict=False)
    bars = [_line(x(at - half), y(value), x(at + half), y(value), edge) for (at, value), half in across]
    return bars + [_line(x(at), y(value - half), x(at), y(value + half), edge) for (at, value), half in along]


def _annotation(each: dict[str, Any], x: Scale, y: Scale) -> SafeString:
    """Draw a text at a fixed place in the plot, or beside its point with a line to it."""
    anchor = {"left": "start", "right": "end"}.get(each.get("xanchor", ""), "middle")
    if each.get("xref") == "paper":
        left = x.start + each["x"] * (x.end - x.start)
        top = y.start + each["y"] * (y.end - y.start) + (-6 if each["y"] < 0.5 else 12)
        return _text(left, top, anchor, _plain(each["text"]))
    left, top = x(each["x"]), y(each["y"])
    to_x, to_y = left + each["ax"], min(max(top + each["ay"], y.end), y.start - 6)
    gap = 3 if each["ax"] > 0 else -3
    line = _line(left, top, to_x, to_y, COLOURS["--edge"], 0.7)
    return SafeString(line + _text(to_x + gap, to_y + 4, anchor, _plain(each["text"]), "--ink"))


def _legend(traces: Sequence[Trace], x: Scale) -> SafeString:
    names = [str(trace.get("name", "")) for trace in traces]
    starts = [x.start]
    for name, _next in pairwise([*names, ""]):
        starts.append(starts[-1] + 40 + CHARACTER * len(name))
    rows = [(at, _colour((trace.get("line") or trace.get("marker") or {}).get("color")), at + 22, name)
            for at, trace, name in zip(starts, traces, names, strict=False)]  # fmt: skip
    tag = '<rect x="{}" y="4" width="16" height="4" fill="{}"/><text x="{}" y="11">{}</text>'
    return format_html_join("", tag, rows)
