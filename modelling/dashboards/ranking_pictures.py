"""Pictures of a ranking: scores with their intervals, and what is agreed against what divides people."""

from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet
from django.db.models.functions import Left
from django.utils.translation import gettext as _

from annotation.models import Project
from modelling.dashboards.addresses import items_at
from modelling.dashboards.pictures import LONGEST_HOVER, Picture, axis, numbers, plain, ranks_axis, shortened
from modelling.models import ConsensusScore
from modelling.ranking import Z_95

MOST_DRAWN = 1000  # items in a picture; beyond, the table has pages


@dataclass(frozen=True)
class Dot:
    """As much of a score as a picture needs."""

    item: int
    key: str
    text: str
    rank: int
    mean: float
    sd: float
    polarisation: float


def pictures_of(scores: "QuerySet[ConsensusScore]", items_of: Project | None) -> list[Picture]:
    """Both pictures of the best of these; points lead to the items of the project, where one is given.

    Without one the reader is a stranger: keys are the researcher's own, and stay out.
    """
    columns = ("item_id", "item__key", Left("item__text", LONGEST_HOVER + 1), "rank", "mean", "sd", "polarisation")
    dots = [Dot(*row) for row in scores.order_by("rank").values_list(*columns)[:MOST_DRAWN]]
    return [intervals_picture(dots, items_of), divides_picture(dots, items_of)] if dots else []


def intervals_picture(dots: list[Dot], project: Project | None) -> Picture:
    """Scores with their 95 % intervals against the rank."""
    bars = {
        "type": "data",
        "array": numbers(Z_95 * dot.sd for dot in dots),
        "color": "--edge",
        "thickness": 1,
        "width": 0,
    }
    trace = {
        **_points(dots, [dot.rank for dot in dots], [dot.mean for dot in dots], project),
        "error_y": bars,
        "marker": {"color": "--accent", "size": 6 if len(dots) <= 200 else 3},
        "hovertemplate": "<b>%{text}</b><br>%{y:.2f} ± %{error_y.array:.2f}<extra></extra>",
    }
    words = _("Score and 95 %% interval of %(n)d items in order of rank, from %(high).2f down to %(low).2f.") % {
        "n": len(dots),
        "high": max(dot.mean for dot in dots),
        "low": min(dot.mean for dot in dots),
    }
    layout = {"xaxis": ranks_axis([dot.rank for dot in dots]), "yaxis": axis(_("Score")), "showlegend": False}
    return Picture("intervals", _("Score with 95 % interval, best first"), words, [trace], layout)


def divides_picture(dots: list[Dot], project: Project | None) -> Picture:
    """Consensus against polarisation: agreed and good, divisive, agreed and poor."""
    trace = {
        **_points(dots, [dot.mean for dot in dots], [dot.polarisation for dot in dots], project),
        "marker": {"color": "--c1", "size": 8 if len(dots) <= 200 else 4, "opacity": 0.7},
        "hovertemplate": "<b>%{text}</b><br>%{x:.2f} / %{y:.2f}<extra></extra>",
    }
    most = max(dots, key=lambda dot: dot.polarisation)
    words = _("Score against how much people differ. Divides people most: %(key)s.") % {
        "key": most.key if project else shortened(most.text)
    }
    corners = [
        (0.0, 0.0, "left", "bottom", _("agreed and poor")),
        (1.0, 0.0, "right", "bottom", _("agreed and good")),
        (0.5, 1.0, "center", "top", _("divides people")),
    ]
    layout = {
        "xaxis": axis(_("Score: what the crowd agrees on")),
        "yaxis": axis(_("How much people differ"), rangemode="tozero"),
        "showlegend": False,
        "annotations": [_corner(*corner) for corner in corners],
    }
    return Picture("divides", _("Agreed or divisive"), words, [trace], layout)


def _points(dots: list[Dot], x: list[Any], y: list[Any], project: Project | None) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "x": numbers(x),
        "y": numbers(y),
        "text": [f"{plain(dot.key)}: {plain(dot.text)}" if project else plain(dot.text) for dot in dots],
        "customdata": items_at(project, [dot.item for dot in dots]) if project else [],
    }


def _corner(x: float, y: float, xanchor: str, yanchor: str, text: str) -> dict[str, Any]:
    place = {"x": x, "y": y, "xref": "paper", "yref": "paper", "xanchor": xanchor, "yanchor": yanchor}
    return {**place, "text": text, "showarrow": False, "font": {"color": "--soft"}}
