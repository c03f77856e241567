"""Figures drawn as SVG: places of points, bars, ticks and labels."""

import re

from modelling.dashboards.common.figures import Figure, axis, error_bars
from modelling.dashboards.report.svg import draw

POINTS = {"type": "scatter", "mode": "markers", "x": [1, 2, 3], "y": [0.5, 2.0, -1.0], "marker": {"color": "--c1"}}


def circles(svg: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)"', svg)]


def test_larger_values_are_further_right_and_higher() -> None:
    (x1, y1), (x2, y2), (x3, y3) = circles(draw(Figure("f", "", "", [POINTS])))
    assert x1 < x2 < x3
    assert y2 < y1 < y3


def test_a_reversed_range_puts_the_first_item_at_the_top() -> None:
    layout = {"yaxis": axis("Rank", range=[3.5, 0.5], tickvals=[1, 2, 3], ticktext=["best", "middle", "worst"])}
    svg = draw(Figure("f", "", "", [{**POINTS, "y": [1, 2, 3]}], layout))
    assert [y for _x, y in circles(svg)] == sorted(y for _x, y in circles(svg))
    assert svg.index(">best<") < svg.index(">worst<")


def test_error_bars_reach_both_ends_of_their_interval() -> None:
    svg = draw(Figure("f", "", "", [{**POINTS, "error_y": error_bars([1.0, 1.0, 1.0])}]))
    [(x, _y), *_rest] = circles(svg)
    assert re.search(rf'<line x1="{x}" y1="[\d.]+" x2="{x}" ', svg)


def test_bars_stand_on_zero() -> None:
    bars = {"type": "bar", "x": ["1", "2"], "y": [0.4, 0.2], "marker": {"color": "--accent"}}
    layout = {"xaxis": axis("Component", type="category"), "yaxis": axis("Variance", rangemode="tozero")}
    svg = draw(Figure("f", "", "", [bars], layout))
    heights = [float(height) for height in re.findall(r'<rect [^>]*height="([\d.]+)"', svg)]
    assert heights[0] == 2 * heights[1]


def test_labels_are_escaped_once() -> None:
    layout = {"yaxis": axis("y", range=[0, 1], tickvals=[0.5], ticktext=["&lt;b&gt; &amp; co"])}
    svg = draw(Figure("f", "", 'a "description"', [], layout))
    assert ">&lt;b&gt; &amp; co<" in svg
    assert 'aria-label="a &quot;description&quot;"' in svg


def test_a_figure_of_one_point_is_drawn() -> None:
    assert circles(draw(Figure("f", "", "", [{**POINTS, "x": [1], "y": [1.0]}])))
