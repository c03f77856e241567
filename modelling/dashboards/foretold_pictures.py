"""Pictures of the scoreboard: each method's loss from version to version, and whether its probabilities come true."""

from collections.abc import Iterable

import numpy as np
from django.utils.translation import gettext as _

from modelling.dashboards.pictures import Picture, Table, Trace, axis, numbers
from modelling.models import ScoreboardEntry
from modelling.scoreboard import Sums

Method = ScoreboardEntry.Method
COLOURS = {Method.PERSONAL: "--c1", Method.CONSENSUS: "--c2", Method.GPPL: "--c3", Method.BRADLEY_TERRY: "--c5"}
MARKS = {Method.PERSONAL: "circle", Method.CONSENSUS: "square", Method.GPPL: "diamond", Method.BRADLEY_TERRY: "x"}
DASHES = {Method.PERSONAL: "solid", Method.CONSENSUS: "dash", Method.GPPL: "dot", Method.BRADLEY_TERRY: "dashdot"}
MOST_VERSIONS = 200  # in the picture and its table; the versions between are left out, the sums are not


def losses_picture(versions: list[tuple[int, dict[str, Sums]]]) -> Picture:
    """The mean log loss of all judgements so far, after each version, one line a method."""
    at = np.unique(np.linspace(0, len(versions) - 1, min(MOST_VERSIONS, len(versions))).astype(int))
    kept = [versions[place] for place in at]
    methods = _scored(kept[-1][1])
    mode = "lines" if len(kept) > 1 else "markers"
    traces: list[Trace] = [
        {
            "type": "scatter",
            "mode": mode,
            "x": [number for number, _sums in kept],
            "y": [_mean(sums[method]) for _number, sums in kept],
            "name": str(method.label),
            "line": {"color": COLOURS[method], "dash": DASHES[method]},
            "marker": {"color": COLOURS[method], "symbol": MARKS[method]},
        }
        for method in methods
    ]
    layout = {"xaxis": axis(_("Version"), type="category"), "yaxis": axis(_("Log loss so far")), "legend": _BELOW}
    table = Table(
        [_("Version"), *(str(method.label) for method in methods)],
        [[number, *(_mean(sums[method]) for method in methods)] for number, sums in kept],
    )
    words = _("Log loss per judgement so far, at version %(number)d: %(losses)s. Smaller is better.") % {
        "number": kept[-1][0],
        "losses": ", ".join(f"{method.label} {_mean(kept[-1][1][method])}" for method in methods),
    }
    return Picture("losses", _("Log loss from version to version"), words, traces, layout, 360, table)


def calibration_picture(sums: dict[str, Sums]) -> Picture:
    """Of the answers foretold with about 70 %: did 70 % come true? For every method, in tenths."""
    methods = _scored(sums)
    perfect = {
        "type": "scatter",
        "mode": "lines",
        "x": [0, 1],
        "y": [0, 1],
        "name": _("as foretold"),
        "line": {"color": "--edge", "dash": "dash", "width": 1},
        "hoverinfo": "skip",
    }
    rows = [[str(method.label), *row] for method in methods for row in _tenths(sums[method])]
    words = _("How often answers came true against how probable they were called: on average %(gaps)s.") % {
        "gaps": ", ".join(
            _("%(method)s %(gap).1f points apart")
            % {"method": method.label, "gap": 100 * calibration_gap(sums[method])}
            for method in methods
        )
    }
    layout = {
        "xaxis": axis(_("Foretold probability"), range=[0, 1]),
        "yaxis": axis(_("Share that came true"), range=[0, 1]),
        "legend": _BELOW,
    }
    table = Table([_("Method"), _("Foretold probability"), _("Share that came true"), _("Judgements")], rows)
    traces = [perfect, *(_curve(method, sums[method]) for method in methods)]
    return Picture("calibration", _("Do the probabilities come true?"), words, traces, layout, 360, table)


def calibration_gap(sums: Sums) -> float:
    """The mean distance between what was foretold and what came, each tenth counting by its judgements."""
    gaps = (abs(foretold - seen) for _labels, foretold, seen in sums.calibration)
    return sum(gaps) / sums.labels if sums.labels else 0.0


_BELOW = {"orientation": "h", "y": -0.4, "yanchor": "top"}


def _scored(sums: dict[str, Sums]) -> list[Method]:
    return [method for method in Method if sums.get(method, Sums()).labels]


def _mean(sums: Sums) -> float | None:
    return None if sums.mean_log_loss is None else round(sums.mean_log_loss, 4)


def _tenths(sums: Sums) -> Iterable[list[float]]:
    """Of each tenth with judgements: the mean foretold, the share that came true, how many."""
    for labels, foretold, seen in sums.calibration:
        if labels:
            yield [*numbers((foretold / labels, seen / labels)), labels]


def _curve(method: Method, sums: Sums) -> Trace:
    foretold, seen, labels = zip(*_tenths(sums), strict=True)
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "x": list(foretold),
        "y": list(seen),
        "text": [_("%(n)d judgements") % {"n": n} for n in labels],
        "name": str(method.label),
        "line": {"color": COLOURS[method], "dash": DASHES[method]},
        "marker": {"color": COLOURS[method], "symbol": MARKS[method], "size": 7},
    }
