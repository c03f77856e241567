"""The map of workers: where they stand on the two strongest components, and how sure that is."""

from dataclasses import dataclass

import numpy as np
from django.utils.translation import gettext as _

from annotation.models import Project
from modelling.dashboards.addresses import workers_at
from modelling.dashboards.axes import Axes, Axis, Floats
from modelling.dashboards.pictures import DIGITS, Picture, Trace, axis, numbers, plain
from modelling.dashboards.traits import Answers, Groups, groups

MOST_DRAWN = 2000  # workers, those with the most answers
MOST_ELLIPSES = 150  # beyond, only the workers of the table's page have theirs
HALF = float(np.sqrt(-2.0 * np.log(0.5)))  # standard deviations of the ellipse that holds half the probability
CORNERS = 24  # of a drawn ellipse
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "star", "x", "hexagon")
COLOURS = ("--c1", "--c2", "--c3", "--c4", "--c5", "--c6", "--c7", "--edge")


@dataclass(frozen=True)
class Place:
    """Where a worker stands on the two strongest components, and how sure that is."""

    x: float
    y: float
    x_sd: float
    y_sd: float


@dataclass(frozen=True)
class Spot:
    """A worker in the map."""

    pk: int
    code: str
    traits: Answers
    answers: int
    place: Place


def pair_of(axes: Axes) -> list[Axis]:
    """The two strongest components; nothing where there are not two."""
    rows = axes.strongest[:2]
    return [axes.axes[row] for row in rows] if len(rows) == 2 else []


def places_on_map(axes: Axes) -> list[Place]:
    """The place of every worker of the version, by position; nothing where there are not two components."""
    rows = axes.strongest[:2]
    if len(rows) < 2:
        return []
    sd = np.sqrt(np.maximum(np.einsum("ucc->uc", axes.user_covariances(rows)), 0.0))
    return [Place(*each) for each in np.hstack((axes.users[rows].T, sd)).tolist()]


def map_picture(project: Project, axes: Axes, drawn: list[Spot], on_page: set[int], trait: str) -> Picture:
    """Workers by their two strongest components; an ellipse holds a worker's true place with probability one half."""
    vague = [spot.pk for spot in drawn if len(drawn) <= MOST_ELLIPSES or spot.pk in on_page]
    outlines = ellipses(axes, vague)
    grouped = groups([spot.traits for spot in drawn], trait) if trait else Groups([""], [0] * len(drawn))
    traces: list[Trace] = []
    for place, name in enumerate(grouped.names):
        members = [spot for spot, group in zip(drawn, grouped.of, strict=True) if group == place]
        look = {"color": COLOURS[min(place, len(COLOURS) - 1)], "symbol": SYMBOLS[place % len(SYMBOLS)]}
        traces += _group_traces(project, name, members, outlines, look)
    pair = pair_of(axes)
    titles = {"n": len(drawn), "x": pair[0].title, "y": pair[1].title}
    words = _("Map of %(n)d workers: %(x)s across, %(y)s up.") % titles
    layout = {
        "xaxis": axis(_axis_title(pair[0])),
        "yaxis": axis(_axis_title(pair[1])),
        "showlegend": bool(trait),
    }
    return Picture("workers", _("Who thinks alike"), words, traces, layout, height=560)


def _axis_title(each: Axis) -> str:
    title = plain(each.title)
    return title if each.in_use else _("%(component)s (not in use)") % {"component": title}


def _group_traces(
    project: Project, name: str, members: list[Spot], outlines: dict[int, Floats], look: dict[str, str]
) -> list[Trace]:
    """The ellipses of a group as one broken line, and its points."""
    around = [outlines[spot.pk] for spot in members if spot.pk in outlines]
    lines = {
        "type": "scatter",
        "mode": "lines",
        "x": _broken([outline[:, 0] for outline in around]),
        "y": _broken([outline[:, 1] for outline in around]),
        "line": {"color": look["color"], "width": 1},
        "opacity": 0.35,
        "hoverinfo": "skip",
        "showlegend": False,
    }
    points = {
        "type": "scatter",
        "mode": "markers",
        "name": plain(name),
        "x": numbers(spot.place.x for spot in members),
        "y": numbers(spot.place.y for spot in members),
        "text": [_hover(spot) for spot in members],
        "customdata": workers_at(project, [spot.code for spot in members]),
        "marker": {**look, "size": 8 if len(members) <= 200 else 5, "opacity": 0.85},
        "hovertemplate": "%{text}<extra></extra>",
    }
    return [lines, points] if around else [points]


def _hover(spot: Spot) -> str:
    told, place = _("%(n)d answers") % {"n": spot.answers}, spot.place
    where = f"{place.x:.2f} ± {place.x_sd:.2f} / {place.y:.2f} ± {place.y_sd:.2f}"
    return f"<b>{plain(spot.code)}</b><br>{told}<br>{where}"


def _broken(parts: list[Floats]) -> list[float | None]:
    """One line with a gap after each part."""
    return [value for part in parts for value in (*(round(float(each), DIGITS) for each in part), None)]


def ellipses(axes: Axes, worker_ids: list[int]) -> dict[int, Floats]:
    """Outlines (corners, 2) of the half-probability regions of these workers on the two strongest components."""
    rows = axes.strongest[:2]
    chosen = np.array([axes.fitted.worker_at[pk] for pk in worker_ids], dtype=np.int64)
    if not len(chosen):
        return {}
    root = np.linalg.cholesky(axes.user_covariances(rows, chosen) + 1e-12 * np.eye(2))
    angle = np.linspace(0.0, 2.0 * np.pi, CORNERS + 1)
    circle = HALF * np.stack((np.cos(angle), np.sin(angle)))  # (2, corners)
    outlines = axes.users[rows].T[chosen][:, None, :] + (root @ circle).swapaxes(1, 2)
    return dict(zip(worker_ids, outlines, strict=True))
