"""How the lower bound rose while a version learned, as a picture with its table."""

from collections.abc import Sequence

import numpy as np
from django.utils.translation import gettext as _

from modelling.dashboards.pictures import Picture, Table, axis, numbers

ROWS = 30  # of the table; the middle of a long course is thinned


def bound_picture(values: Sequence[float]) -> Picture | None:
    """The bound after each iteration; None where there is no course to draw."""
    bounds = np.asarray(values, dtype=float)
    if len(bounds) < 2 or not np.isfinite(bounds).all():
        return None
    iterations = list(range(1, len(bounds) + 1))
    trace = {
        "type": "scatter",
        "mode": "lines",
        "x": iterations,
        "y": numbers(bounds),
        "line": {"color": "--accent", "width": 2},
    }
    layout = {"xaxis": axis(_("Iteration")), "yaxis": axis(_("Lower bound")), "showlegend": False}
    words = _("From %(first).1f to %(last).1f") % {"first": bounds[0], "last": bounds[-1]}
    kept = np.unique(np.linspace(0, len(bounds) - 1, min(ROWS, len(bounds))).astype(int))
    table = Table([_("Iteration"), _("Lower bound")], [[iterations[at], round(float(bounds[at]), 2)] for at in kept])
    return Picture("bound", _("The bound while it learned"), words, [trace], layout, 280, table)
