"""The suggested pairs page: their purpose, the next pairs, and their information gain compared with random pairs."""

from dataclasses import dataclass
from itertools import accumulate
from math import exp, log, sqrt
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from annotation.models import Item, Project, Suggestion
from annotation.services.pairs.selection import LEAST_JUDGED, RANDOM, SUGGESTED
from modelling.dashboards.common.figures import Figure, FigureTable, axis, rounded
from modelling.models import ModelSnapshot
from modelling.planning.live_gain import GainSums, add_up
from modelling.planning.reading_time import ReadingTime, reading_time
from modelling.training.ranking import Z_95

MAX_SHOWN = 10
MAX_VERSIONS = 500  # newest versions whose measurements are added up
LEAST_MEASURED = 20  # judgements of each policy before their ratio is shown
LABELS: dict[str, Any] = {
    SUGGESTED: gettext_lazy("suggested pairs"),
    RANDOM: gettext_lazy("random pairs alongside"),
    LEAST_JUDGED: gettext_lazy("least judged pairs, without suggestions"),
}


@dataclass(frozen=True)
class MeasuredPolicy:
    """A policy with the information its judgements gave about the consensus, in bits."""

    label: str
    sums: GainSums

    @property
    def low(self) -> float:
        return max(0.0, self.sums.mean - self.sums.half_width)

    @property
    def high(self) -> float:
        return self.sums.mean + self.sums.half_width


@dataclass(frozen=True)
class Ratio:
    """Information from suggested over random pairs with a 95% interval, per minute if response times are known."""

    value: float
    low: float
    high: float
    per_minute: bool


@dataclass(frozen=True)
class NextPair:
    first: Item
    second: Item
    gain: float
    seconds: float
    issued: int


@dataclass(frozen=True)
class SuggestionsPage:
    purpose: str
    active: bool
    total: int
    personal: int
    pairs: list[NextPair]
    policies: list[MeasuredPolicy]
    ratio: Ratio | None
    reading: ReadingTime
    figures: list[Figure]


def suggestions_page(project: Project) -> SuggestionsPage:
    stored = list_measurements(project)
    sums, reading = add_up(version for _number, version in stored), reading_time(project)
    rows = Suggestion.objects.filter(project=project)
    figure = gain_figure(stored)
    return SuggestionsPage(
        purpose=project.get_suggestions_display(),
        active=project.suggestions != Project.Suggestions.NONE or rows.exists(),
        total=rows.count(),
        personal=rows.exclude(worker=None).values("worker").distinct().count(),
        pairs=next_pairs(project, reading),
        policies=[MeasuredPolicy(str(label), sums[name]) for name, label in LABELS.items() if name in sums],
        ratio=gain_ratio(sums),
        reading=reading,
        figures=[figure] if figure else [],
    )


def list_measurements(project: Project) -> list[tuple[int, dict[str, Any]]]:
    """The measured sums of each version that has some, oldest first."""
    versions = ModelSnapshot.objects.filter(project=project).order_by("-number")
    rows = versions.values_list("number", "diagnostics__pairing")[:MAX_VERSIONS]
    return [(number, stored) for number, stored in rows if stored][::-1]


def next_pairs(project: Project, reading: ReadingTime) -> list[NextPair]:
    """The suggestions for everyone in the order in which workers get them."""
    rows = Suggestion.objects.filter(project=project, worker=None).order_by("issued", "-gain", "pk")
    found = []
    for row in rows.select_related("item_lo__project", "item_hi__project")[:MAX_SHOWN]:
        seconds = reading.base + reading.per_character * (len(row.item_lo.text) + len(row.item_hi.text))
        found.append(NextPair(row.item_lo, row.item_hi, row.gain, seconds, row.issued))
    return found


def gain_ratio(sums: dict[str, GainSums]) -> Ratio | None:
    """Ratio with an interval by the delta method on the log scale; None before both policies have enough judgements."""
    suggested, random = sums.get(SUGGESTED, GainSums()), sums.get(RANDOM, GainSums())
    if min(suggested.n, random.n) < LEAST_MEASURED or not (suggested.mean > 0 and random.mean > 0):
        return None
    error = sqrt(sum((each.half_width / Z_95 / each.mean) ** 2 for each in (suggested, random)))
    timed = suggested.per_minute, random.per_minute
    by_minute = bool(timed[0] and timed[1])
    middle = log(timed[0] / timed[1]) if timed[0] and timed[1] else log(suggested.mean / random.mean)
    return Ratio(exp(middle), exp(middle - Z_95 * error), exp(middle + Z_95 * error), by_minute)


def gain_figure(stored: list[tuple[int, dict[str, Any]]]) -> Figure | None:
    """Mean bits per judgement up to each version, for suggested and random pairs."""
    traces, rows, labels = [], [], []
    numbers = [number for number, _sums in stored]
    for name, colour in ((SUGGESTED, "--c1"), (RANDOM, "--c2")):
        totals = accumulate((GainSums(**sums.get(name, {})) for _number, sums in stored), GainSums.__add__)
        means = [total.mean if total.n else None for total in totals]
        if any(mean is not None for mean in means):
            known = [(number, mean) for number, mean in zip(numbers, means, strict=True) if mean is not None]
            y = rounded(mean for _number, mean in known)
            trace = {"type": "scatter", "mode": "lines", "name": str(LABELS[name]), "line": {"color": colour}}
            traces.append({**trace, "x": [number for number, _mean in known], "y": y})
            rows.append([None if mean is None else round(mean, 4) for mean in means])
            labels.append(str(LABELS[name]))
    if len(stored) < 2 or not traces:
        return None
    table = FigureTable([_("Version"), *labels], [list(row) for row in zip(numbers, *rows, strict=True)])
    layout = {"xaxis": axis(_("Version")), "yaxis": axis(_("bits per judgement"), rangemode="tozero")}
    description = _("Mean information per judgement up to each version; the table has the numbers.")
    return Figure("gain", _("Information per judgement so far"), description, traces, layout, 300, table)
