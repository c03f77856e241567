"""Helpers for the paper's experiments: finished cells on disk, tables on stderr, figures as PNG."""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import arguments, paired, print_progress

COLOURS = ("#1b6ca8", "#d1495b", "#2e933c", "#8f5aa8", "#e08e0b", "#3a7d7c", "#7a7a7a", "#b5651d", "#444444", "#c77dbb")
WIDTH, HEIGHT = 420, 340  # of one panel


def parser(description: str | None, repeats: int | None = None) -> argparse.ArgumentParser:
    """Return a parser with the options that all experiments share."""
    made = arguments(description)
    made.add_argument("--fresh", action="store_true", help="discard the cells that an earlier run finished")
    made.add_argument("--finished", action="store_true", help="report what earlier runs finished; compute nothing")
    if repeats is not None:
        made.add_argument("--repeats", type=int, default=repeats, help=f"repeats of every cell (paper: {repeats})")
    return made


class Runs:
    """An experiment's finished cells in a JSON Lines file; a killed run continues after the last one."""

    def __init__(self, name: str, options: argparse.Namespace) -> None:
        self.path: Path | None = None if options.quick else options.results / f"{name}.runs.jsonl"
        self.found: dict[str, Any] = {}
        self.finished = getattr(options, "finished", False)
        if self.path is None:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if getattr(options, "fresh", False):
            self.path.unlink(missing_ok=True)
        if self.path.exists():
            for line in self.path.read_text(encoding="utf-8").splitlines():
                self._read(line)

    def _read(self, line: str) -> None:
        """Read one cell; ignore a line that is incomplete because the run was killed."""
        try:
            cell = json.loads(line)
        except json.JSONDecodeError:
            return
        self.found[_name(cell["key"])] = cell["value"]

    def cell(self, compute: Callable[[], Any], **key: Any) -> Any:
        """Return this cell's stored value, or compute and store it; with --finished, None instead of computing it."""
        name = _name(key)
        if name not in self.found and self.finished:
            return None
        if name not in self.found:
            self.found[name] = compute()
            if self.path is not None:
                with self.path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"key": key, "value": self.found[name]}, default=_plain) + "\n")
            print_progress(f"{', '.join(f'{k} {v}' for k, v in key.items())}: {short(self.found[name])}")
        return self.found[name]


def _name(key: dict[str, Any]) -> str:
    return json.dumps(key, sort_keys=True, default=_plain)


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else str(value)


def short(value: Any) -> str:
    """Format a cell for a line of progress."""
    if isinstance(value, dict):
        parts = [f"{key} {short(each)}" for key, each in value.items() if isinstance(each, int | float)]
        return ", ".join(parts)
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print an aligned table to stderr, with three decimal places and a dash for missing numbers."""
    shown = [[_cell(value) for value in row] for row in rows]
    widths = [max(len(line[i]) for line in [list(columns), *shown]) for i in range(len(columns))]
    print_progress(f"\n{title}")
    for line in [list(columns), *shown]:
        first, *others = (
            text.ljust(w) if i == 0 else text.rjust(w) for i, (text, w) in enumerate(zip(line, widths, strict=True))
        )
        print_progress("  " + "  ".join([first, *others]))


def _cell(value: Any) -> str:
    if value is None or (isinstance(value, float) and not np.isfinite(value)):
        return "-"
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def mean_and_half(values: Sequence[float]) -> dict[str, float]:
    """Mean and half-width of the 95% t interval over repeats."""
    from scipy import stats

    finite = np.array([value for value in values if np.isfinite(value)], dtype=float)
    mean = float(finite.mean()) if len(finite) else float("nan")
    if len(finite) < 2:
        return {"mean": mean, "half": float("nan"), "n": len(finite)}
    half = float(stats.t.ppf(0.975, len(finite) - 1) * finite.std(ddof=1) / np.sqrt(len(finite)))
    return {"mean": mean, "half": half, "n": len(finite)}


def paired_so_far(first: Sequence[float], second: Sequence[float]) -> dict[str, float]:
    """The paired difference over the repeats that both series have."""
    n = min(len(first), len(second))
    return paired(first[:n], second[:n])


# Figures ------------------------------------------------------------------------------------------------------------


def line(name: str, x: Sequence[float], y: Sequence[float], half: Sequence[float] | None = None) -> dict[str, Any]:
    """A curve of a panel, optionally with intervals."""
    return {"name": name, "x": list(x), "y": list(y), "half": None if half is None else list(half)}


def panel(
    title: str, x: str, y: str, lines: list[dict[str, Any]], log_x: bool = False, log_y: bool = False
) -> dict[str, Any]:
    """One panel of a figure."""
    return {"title": title, "x": x, "y": y, "lines": lines, "log_x": log_x, "log_y": log_y}


def write_figure(name: str, panels: list[dict[str, Any]], options: argparse.Namespace) -> None:
    """Write benchmarks/results/<name>.png with the panels side by side, unless this is a quick run."""
    if options.quick or not panels:
        return
    figure = build_figure(panels)
    path = options.results / f"{name}.png"
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        path = path.with_suffix(".html")
        figure.write_html(path)
    else:
        screenshot(figure, path, chromium)
    print_progress(f"figure: {path}")


def build_figure(panels: list[dict[str, Any]]) -> Any:
    """Build the Plotly figure of these panels; a method has the same colour in all of them."""
    from plotly.subplots import make_subplots

    figure = make_subplots(1, len(panels), subplot_titles=[each["title"] for each in panels], horizontal_spacing=0.09)
    names = list(dict.fromkeys(one["name"] for each in panels for one in each["lines"]))
    colours = {name: COLOURS[i % len(COLOURS)] for i, name in enumerate(names)}
    seen: set[str] = set()
    for column, each in enumerate(panels, start=1):
        for one in each["lines"]:
            bars = {"type": "data", "array": one["half"], "thickness": 1} if one["half"] else None
            figure.add_scatter(
                x=one["x"], y=one["y"], error_y=bars, name=one["name"], mode="lines+markers", row=1, col=column,
                line={"color": colours[one["name"]]}, showlegend=one["name"] not in seen, legendgroup=one["name"],
            )  # fmt: skip
            seen.add(one["name"])
        figure.update_xaxes(title_text=each["x"], type="log" if each["log_x"] else "linear", row=1, col=column)
        figure.update_yaxes(title_text=each["y"], type="log" if each["log_y"] else "linear", row=1, col=column)
    figure.update_layout(
        width=WIDTH * len(panels) + 160, height=HEIGHT, template="plotly_white", font={"size": 12},
        margin={"l": 60, "r": 20, "t": 40, "b": 50},
    )  # fmt: skip
    return figure


def screenshot(figure: Any, path: Path, chromium: str) -> None:
    """Render the figure in headless Chromium: the pinned packages have no other way to draw a PNG."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": figure.layout.width + 20, "height": figure.layout.height + 20})
        page.set_content(figure.to_html(include_plotlyjs=True, full_html=True, config={"displayModeBar": False}))
        page.wait_for_selector(".main-svg")
        page.locator(".plotly-graph-div").screenshot(path=str(path))
        browser.close()
