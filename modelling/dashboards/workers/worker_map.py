"""The map of workers: their weights on the two strongest components, with uncertainty ellipses.

Where there is only one component, the vertical axis is the number of judgements.
"""

from dataclasses import dataclass

import numpy as np
from django.utils.translation import gettext as _

from annotation.models import Project
from modelling.dashboards.common.figures import DIGITS, Figure, Trace, axis, error_bars, escape_label, rounded
from modelling.dashboards.common.query import worker_urls
from modelling.dashboards.common.traits import TraitGroups, Traits, group_by_trait
from modelling.training.components.axes import ComponentAxes, ComponentAxis, Floats
from modelling.training.ranking import Z_95

MAX_POINTS = 2000  # workers, those with the most judgements
MAX_ELLIPSES = 150  # with more workers, only those on the current table page get one
ELLIPSE_RADIUS = float(np.sqrt(-2.0 * np.log(0.05)))  # standard deviations of the ellipse with probability 95 %
ELLIPSE_POINTS = 24
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "star", "x", "hexagon")
COLOURS = ("--c1", "--c2", "--c3", "--c4", "--c5", "--c6", "--c7", "--edge")


@dataclass(frozen=True)
class MapPosition:
    """A worker's weights on the two strongest components, with standard deviations; no y with one component."""

    x: float
    x_sd: float
    y: float | None = None
    y_sd: float | None = None


@dataclass(frozen=True)
class MapPoint:
    """A worker on the map."""

    pk: int
    code: str
    traits: Traits
    judgements: int
    position: MapPosition

    @property
    def height(self) -> float:
        """The vertical position on the map."""
        return self.judgements if self.position.y is None else self.position.y


def map_axes(axes: ComponentAxes) -> list[ComponentAxis]:
    """The components of the map: at most the two strongest."""
    return [axes.axes[row] for row in axes.strongest[:2]]


def map_positions(axes: ComponentAxes) -> list[MapPosition]:
    """The map position of every worker of the version; empty without components."""
    rows = axes.strongest[:2]
    if not rows:
        return []
    sd = np.sqrt(np.maximum(np.einsum("ucc->uc", axes.user_covariances(rows)), 0.0))
    weights = np.stack((axes.users[rows].T, sd), axis=2)  # (U, components, weight and sd)
    return [MapPosition(*each) for each in weights.reshape(len(weights), -1).tolist()]


def map_figure(project: Project, axes: ComponentAxes, points: list[MapPoint], on_page: set[int], trait: str) -> Figure:
    """Workers by their two strongest components; an ellipse contains the true position with probability 95 %.

    With one component, error bars of 95 % intervals take the place of the ellipses.
    """
    with_ellipse = [point.pk for point in points if len(points) <= MAX_ELLIPSES or point.pk in on_page]
    ellipses = uncertainty_ellipses(axes, with_ellipse)
    one_group = TraitGroups([""], [0] * len(points))
    grouped = group_by_trait([point.traits for point in points], trait) if trait else one_group
    traces: list[Trace] = []
    for index, name in enumerate(grouped.names):
        members = [point for point, group in zip(points, grouped.of, strict=True) if group == index]
        style = {"color": COLOURS[min(index, len(COLOURS) - 1)], "symbol": SYMBOLS[index % len(SYMBOLS)]}
        traces += _group_traces(project, name, members, ellipses, style)
    titles = [*(each.axis_title for each in map_axes(axes)), _("Judgements")][:2]
    description = _("Map of %(n)d workers: horizontal axis %(x)s, vertical axis %(y)s.") % {
        "n": len(points),
        "x": titles[0].replace("\n", " "),
        "y": titles[1].replace("\n", " "),
    }
    titles = [escape_label(title).replace("\n", "<br>") for title in titles]
    layout = {"xaxis": axis(titles[0]), "yaxis": axis(titles[1]), "showlegend": bool(trait)}
    return Figure("workers", _("Map of workers"), description, traces, layout, height=560)


def _group_traces(
    project: Project, name: str, members: list[MapPoint], ellipses: dict[int, Floats], style: dict[str, str]
) -> list[Trace]:
    """The ellipses of a group as one line with gaps, and its points."""
    outlines = [ellipses[point.pk] for point in members if point.pk in ellipses]
    lines = {
        "type": "scatter",
        "mode": "lines",
        "x": _join_with_gaps([outline[:, 0] for outline in outlines]),
        "y": _join_with_gaps([outline[:, 1] for outline in outlines]),
        "line": {"color": style["color"], "width": 1},
        "opacity": 0.35,
        "hoverinfo": "skip",
        "showlegend": False,
    }
    markers = {
        "type": "scatter",
        "mode": "markers",
        "name": escape_label(name),
        "x": rounded(point.position.x for point in members),
        "y": rounded(point.height for point in members),
        "text": [_hover_text(point) for point in members],
        "customdata": worker_urls(project, [point.code for point in members]),
        "marker": {**style, "size": 8 if len(members) <= 200 else 5, "opacity": 0.85},
        "hovertemplate": "%{text}<extra></extra>",
    }
    if members and members[0].position.y is None:
        markers["error_x"] = error_bars(Z_95 * point.position.x_sd for point in members)
    return [lines, markers] if outlines else [markers]


def _hover_text(point: MapPoint) -> str:
    count, at = _("%(n)d judgements") % {"n": point.judgements}, point.position
    position = f"{at.x:.2f} ± {Z_95 * at.x_sd:.2f}"
    if at.y is not None and at.y_sd is not None:
        position += f" / {at.y:.2f} ± {Z_95 * at.y_sd:.2f}"
    return f"{escape_label(point.code)}<br>{count}<br>{position}"


def _join_with_gaps(parts: list[Floats]) -> list[float | None]:
    return [value for part in parts for value in (*(round(float(each), DIGITS) for each in part), None)]


def uncertainty_ellipses(axes: ComponentAxes, worker_ids: list[int]) -> dict[int, Floats]:
    """Outlines, shape (points, 2), of the regions that contain these workers' positions with probability 95 %.

    Empty with fewer than two components.
    """
    rows = axes.strongest[:2]
    chosen = np.array([axes.fitted.worker_index[pk] for pk in worker_ids], dtype=np.int64)
    if not len(chosen) or len(rows) < 2:
        return {}
    root = np.linalg.cholesky(axes.user_covariances(rows)[chosen] + 1e-12 * np.eye(2))
    angle = np.linspace(0.0, 2.0 * np.pi, ELLIPSE_POINTS + 1)
    circle = ELLIPSE_RADIUS * np.stack((np.cos(angle), np.sin(angle)))  # (2, points)
    outlines = axes.users[rows].T[chosen][:, None, :] + (root @ circle).swapaxes(1, 2)
    return dict(zip(worker_ids, outlines, strict=True))
