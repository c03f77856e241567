"""The scoreboard: how well each method predicted judgements before it was trained on them."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from django.template.defaultfilters import floatformat  # rounds like the table; number_format truncates
from django.utils.formats import number_format
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from annotation.models import Project
from modelling.dashboards.common.figures import Figure, FigureTable, Trace, axis, rounded
from modelling.dashboards.common.shares import Share
from modelling.engines import CROWDGPPL, PAPER_SVI
from modelling.models import ScoreboardEntry
from modelling.training.evaluation.scoreboard import MIN_SCORED, MetricSums, running_totals, scoreboard_totals
from modelling.training.ranking import Z_95
from modelling.training.settings import METHOD_LABELS

Method = ScoreboardEntry.Method
MIN_BATCHES = 5  # versions with new judgements, to tell a difference from chance
COLOURS = {"personal": "--c1", "consensus": "--c2", "gppl": "--c3", "bradley_terry": "--c5"}
SYMBOLS = {"personal": "circle", "consensus": "square", "gppl": "diamond", "bradley_terry": "x"}
DASHES = {"personal": "solid", "consensus": "dash", "gppl": "dot", "bradley_terry": "dashdot"}
OTHER_COLOURS = ("--c4", "--c6", "--c7")  # for methods that the settings add; beyond three, symbols distinguish them
OTHER_SYMBOLS = ("cross", "star", "triangle-up", "triangle-down", "hexagon", "pentagon")
LEGEND_BELOW = {"orientation": "h", "y": -0.4, "yanchor": "top"}
MAX_VERSIONS = 200  # in the figure and its table; the sums still include the versions left out
AS_PUBLISHED = {
    "personal": gettext_lazy("crowdGPPL as published, each worker's own preferences"),
    "consensus": gettext_lazy("crowdGPPL as published, the consensus"),
}
SEVERAL_ENGINES = {
    "personal": gettext_lazy("this study's engines, each worker's own preferences"),
    "consensus": gettext_lazy("this study's engines, the consensus"),
}
Versions = list[tuple[int, dict[str, MetricSums]]]  # each version's number with the sums up to it


@dataclass(frozen=True)
class MethodScore:
    """One method's row. Losses are means per judgement; smaller is better."""

    method: str
    judgements: int
    percent_right: float | None
    log_loss: float
    brier: float
    best: bool


@dataclass(frozen=True)
class Scoreboard:
    summary: str
    rows: list[MethodScore]
    figures: list[Figure]


def scoreboard(project: Project, upto: int) -> Scoreboard | None:
    """All methods over the versions up to this one, smallest log loss first; None before the first judgement."""
    versions = running_totals(project, upto)
    sums = _nonempty(versions[-1][1]) if versions else {}
    if not sums:
        return None
    losses = {method: each.log_loss / each.labels for method, each in sums.items()}
    names, ordered = method_names(project, upto, sums), sorted(losses, key=lambda method: losses[method])
    enough = _are_enough([each.labels for each in sums.values()], len(versions))
    rows = [_row(names[method], sums[method], enough and method == ordered[0]) for method in ordered]
    figures = [losses_figure(versions, names), calibration_figure(sums, names)]
    return Scoreboard(_summary(sums, losses, versions), rows, figures)


def accuracy_summary(project: Project, upto: int) -> str:
    """Accuracy of the personal model and of the consensus on new judgements; empty before there are enough."""
    sums = scoreboard_totals(project, upto)
    both = [sums.get(method, MetricSums()) for method in (Method.PERSONAL, Method.CONSENSUS)]
    if any(each.decided < MIN_SCORED for each in both):
        return ""
    own, crowd = (f"{floatformat(100 * each.correct / each.decided, 0)} % ({_interval(each)})" for each in both)
    return _(
        "Of %(n)s new judgements, the personal model predicted %(own)s correctly and the consensus %(crowd)s, with "
        "95%% intervals in brackets."
    ) % {"n": number_format(both[0].decided, force_grouping=True), "own": own, "crowd": crowd}


def method_names(project: Project, upto: int, methods: Iterable[str]) -> dict[str, str]:
    """The names of these methods on pages; those of the study's own model depend on its engines up to this version."""
    scored = ScoreboardEntry.objects.filter(snapshot__project=project, snapshot__number__lte=upto)
    found = scored.order_by().values_list("snapshot__parent__settings__engine", flat=True).distinct()
    engines = {engine or CROWDGPPL for engine in found}  # earlier releases had one engine
    own = {CROWDGPPL: {}, PAPER_SVI: AS_PUBLISHED}[engines.pop()] if len(engines) == 1 else SEVERAL_ENGINES
    return {method: str(own[method]) if method in own else method_label(method) for method in methods}


def method_label(method: str) -> str:
    """The name of a method in a study whose engine is crowdGPPL."""
    return str(Method(method).label if method in Method.values else METHOD_LABELS.get(method, method))


def _style(method: str) -> tuple[str, str, str]:
    """Colour, symbol and dash of a method."""
    if method in COLOURS:
        return COLOURS[method], SYMBOLS[method], DASHES[method]
    place = list(METHOD_LABELS).index(method) if method in METHOD_LABELS else 0
    return OTHER_COLOURS[place % 3], OTHER_SYMBOLS[place // 3 % 6], "longdash"


def _nonempty(sums: dict[str, MetricSums]) -> dict[str, MetricSums]:
    return {method: each for method, each in sums.items() if each.labels}


def _row(name: str, sums: MetricSums, best: bool) -> MethodScore:
    right = None if sums.accuracy is None else 100 * sums.accuracy
    return MethodScore(name, sums.labels, right, sums.log_loss / sums.labels, sums.brier / sums.labels, best)


def _summary(sums: dict[str, MetricSums], losses: dict[str, float], versions: Versions) -> str:
    """Whether modelling individual workers improves predictions, if there are enough new judgements to tell."""
    personal = sums.get(Method.PERSONAL)
    if personal is None or personal.accuracy is None:
        return _("All new judgements so far are ties, so accuracy cannot be computed.")
    accuracy = _(
        "The personal model predicted %(right)s %% of %(labels)s new judgements correctly (95 %% interval "
        "%(interval)s)."
    ) % {
        "right": floatformat(100 * personal.accuracy, 1),
        "labels": number_format(personal.decided, force_grouping=True),
        "interval": _interval(personal),
    }
    others = {method: loss for method, loss in losses.items() if method != Method.PERSONAL}
    return f"{accuracy} {_verdict(versions, min(others, key=lambda method: others[method]))}" if others else accuracy


def _interval(sums: MetricSums) -> str:
    """The 95 % interval of the accuracy."""
    share = Share(sums.correct, sums.decided)
    return f"{floatformat(100 * share.low, 0)}–{floatformat(100 * share.high, 0)} %"


def _verdict(versions: Versions, rival: str) -> str:
    """Compare the personal model with the best other method; nothing is concluded unless the interval excludes 0."""
    gain, error = _log_loss_gain(versions, rival)
    if error is None:
        return _("There are too few new judgements to compare the methods.")
    if gain > Z_95 * error:
        return _("It has the smallest log loss: modelling individual workers helps.")
    if gain < -Z_95 * error:
        return _("Another method has a smaller log loss: so far, modelling individual workers does not help.")
    return _(
        "Its log loss is not clearly different from the next best: modelling individual workers may or may not help."
    )


def _are_enough(judgements: list[int], batches: int) -> bool:
    """Whether methods can be compared by so many new judgements of each, in so many versions."""
    return min(judgements) >= MIN_SCORED and batches >= MIN_BATCHES


def _log_loss_gain(versions: Versions, rival: str) -> tuple[float, float | None]:
    """How much smaller the personal model's mean log loss is than the rival's, and its standard error over versions.

    The error is None with fewer than MIN_SCORED judgements in MIN_BATCHES versions.
    """
    totals = [(sums[Method.PERSONAL], sums[rival]) for _number, sums in versions]
    batches = zip([(MetricSums(), MetricSums()), *totals], totals, strict=False)
    differences, labels = [], []
    for (own_before, rival_before), (own, other) in batches:
        n = own.labels - own_before.labels
        if n and n == other.labels - rival_before.labels:
            differences.append((other.log_loss - rival_before.log_loss) - (own.log_loss - own_before.log_loss))
            labels.append(n)
    total, size = sum(labels), len(labels)
    if not _are_enough([total], size):
        return 0.0, None
    gain = sum(differences) / total
    residual = np.array(differences) - gain * np.array(labels)
    return gain, float(np.sqrt(size / (size - 1) * np.square(residual).sum()) / total)


def losses_figure(versions: Versions, names: dict[str, str]) -> Figure:
    """Each method's mean log loss over all judgements up to each version."""
    kept_indices = np.unique(np.linspace(0, len(versions) - 1, min(MAX_VERSIONS, len(versions))).astype(int))
    kept = [versions[index] for index in kept_indices]
    methods = _methods(kept[-1][1])
    traces: list[Trace] = [
        {
            "type": "scatter",
            "mode": "lines" if len(kept) > 1 else "markers",
            "x": [number for number, _sums in kept],
            "y": [_mean_loss(sums[method]) for _number, sums in kept],
            "name": names[method],
            **_drawn(method),
        }
        for method in methods
    ]
    layout = {"xaxis": axis(_("Version"), type="category"), "yaxis": axis(_("Mean log loss")), "legend": LEGEND_BELOW}
    table = FigureTable(
        [_("Version"), *(names[method] for method in methods)],
        [[number, *(_mean_loss(sums[method]) for method in methods)] for number, sums in kept],
    )
    description = _("Mean log loss per judgement up to version %(number)d: %(losses)s. Smaller is better.") % {
        "number": kept[-1][0],
        "losses": ", ".join(f"{names[method]} {_mean_loss(kept[-1][1][method])}" for method in methods),
    }
    return Figure("losses", _("Log loss by version"), description, traces, layout, 360, table)


def calibration_figure(sums: dict[str, MetricSums], names: dict[str, str]) -> Figure:
    """Observed frequency against predicted probability in ten bins, for every method."""
    methods = _methods(sums)
    diagonal = {
        "type": "scatter",
        "mode": "lines",
        "x": [0, 1],
        "y": [0, 1],
        "name": _("perfect calibration"),
        "line": {"color": "--edge", "dash": "dash", "width": 1},
        "hoverinfo": "skip",
    }
    rows = [[names[method], *row] for method in methods for row in _bins(sums[method])]
    description = _("Observed frequency against predicted probability. Mean difference: %(gaps)s.") % {
        "gaps": ", ".join(
            _("%(method)s %(gap).1f points") % {"method": names[method], "gap": 100 * calibration_gap(sums[method])}
            for method in methods
        )
    }
    layout = {
        "xaxis": axis(_("Predicted probability"), range=[0, 1]),
        "yaxis": axis(_("Observed frequency"), range=[0, 1]),
        "legend": LEGEND_BELOW,
    }
    table = FigureTable([_("Method"), _("Predicted probability"), _("Observed frequency"), _("Judgements")], rows)
    traces = [diagonal, *(_curve(method, names[method], sums[method]) for method in methods)]
    return Figure("calibration", _("Calibration"), description, traces, layout, 360, table)


def calibration_gap(sums: MetricSums) -> float:
    """Mean absolute difference between predicted and observed frequency, weighted by the judgements in each bin."""
    gaps = (abs(predicted - observed) for _labels, predicted, observed in sums.calibration)
    return sum(gaps) / sums.labels if sums.labels else 0.0


def _methods(sums: dict[str, MetricSums]) -> list[str]:
    return [method for method, each in sums.items() if each.labels]


def _drawn(method: str, **marker: int) -> Trace:
    """Line and marker style of a method's curve."""
    colour, symbol, dash = _style(method)
    return {"line": {"color": colour, "dash": dash}, "marker": {"color": colour, "symbol": symbol, **marker}}


def _mean_loss(sums: MetricSums) -> float | None:
    return None if sums.mean_log_loss is None else round(sums.mean_log_loss, 4)


def _bins(sums: MetricSums) -> Iterable[list[float]]:
    """Mean prediction, observed frequency and number of judgements of each non-empty bin."""
    for labels, predicted, observed in sums.calibration:
        if labels:
            yield [*rounded((predicted / labels, observed / labels)), labels]


def _curve(method: str, name: str, sums: MetricSums) -> Trace:
    predicted, observed, labels = zip(*_bins(sums), strict=True)
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "x": list(predicted),
        "y": list(observed),
        "text": [_("%(n)d judgements") % {"n": n} for n in labels],
        "name": name,
        **_drawn(method, size=7),
    }
