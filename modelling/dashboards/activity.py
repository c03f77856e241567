"""How the study goes: answers over time, per item and per worker, how far people agree, and what to do next."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

from django.db.models import Count, Max, Min
from django.db.models.functions import TruncDay, TruncHour, TruncMinute
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from annotation.models import Judgement, Project
from modelling.dashboards.answers import learned_from
from modelling.dashboards.foretold import in_one_line
from modelling.dashboards.freshness import Freshness
from modelling.dashboards.pictures import Picture, Table, axis
from modelling.models import ModelSnapshot

MINUTES_UP_TO, HOURS_UP_TO = timedelta(hours=3), timedelta(days=4)
ENOUGH_PER_ITEM = 10  # judgements; with about so many, intervals become narrower than the differences
BARS = 20
FEWEST_STEPS = 6  # minutes, hours or days on the axis of time


@dataclass(frozen=True)
class Agreement:
    """Of two answers to one pair: how often they are the same, by two workers and by one worker asked again."""

    between: float | None
    pairs: int
    within: float | None
    repeats: int


@dataclass(frozen=True)
class ActivityPage:
    judgements: int
    workers: dict[str, int]
    per_item: float
    agreement: Agreement | None
    foretold: str
    advice: list[str]
    pictures: list[Picture]


def activity_page(freshness: Freshness) -> ActivityPage:
    """Counted from the rows as they are now; agreement from those of the shown version."""
    project = freshness.project
    standing = Judgement.objects.answers().filter(project=project)
    n = standing.count()
    per_item, per_worker = answers_per_item(project), list(_counted(standing, "worker").values())
    mean = sum(per_item) / len(per_item) if per_item else 0.0
    agreement = agreement_of(freshness.snapshot) if freshness.snapshot else None
    pictures = [
        over_time(standing),
        _bars("per-item", _("Answers per item"), _("answers"), _("items"), per_item),
        _bars("per-worker", _("Answers per worker"), _("answers"), _("workers"), per_worker),
    ]
    active = project.workers.by_activity(timezone.now())
    foretold = in_one_line(project, freshness.revision)
    return ActivityPage(n, active, mean, agreement, foretold, advice(project, per_item), pictures if n else [])


def answers_per_item(project: Project) -> list[int]:
    """One number for each item that is given out, standing answers only."""
    standing = Judgement.objects.answers().filter(project=project)
    lo, hi = _counted(standing, "item_lo"), _counted(standing, "item_hi")
    items = project.items.filter(active=True).values_list("pk", flat=True)
    return [lo.get(pk, 0) + hi.get(pk, 0) for pk in items]


def _counted(rows: Any, name: str) -> dict[int, int]:
    return dict(rows.order_by().values_list(name).annotate(n=Count("pk")))


def agreement_of(snapshot: ModelSnapshot) -> Agreement:
    return _agreement(snapshot, snapshot.checksum)


@lru_cache(maxsize=32)
def _agreement(snapshot: ModelSnapshot, checksum: str) -> Agreement:
    """What a version has learned from never changes, so what it says is worth keeping."""
    seen = learned_from(snapshot)
    pairs: dict[tuple[int, int], Counter[str]] = defaultdict(Counter)
    own: dict[tuple[int, int, int], Counter[str]] = defaultdict(Counter)
    for worker, lo, hi, choice in seen.values_list("worker", "item_lo", "item_hi", "choice").iterator():
        own[worker, lo, hi][choice] += 1
        if sum(own[worker, lo, hi].values()) == 1:
            pairs[lo, hi][choice] += 1
    between, n_pairs = same_answer(pairs.values())
    within, n_repeats = same_answer(own.values())
    return Agreement(between, n_pairs, within, n_repeats)


def same_answer(counts: Iterable[Counter[str]]) -> tuple[float | None, int]:
    """The chance that two answers are the same, the mean over all with two or more, and how many those are."""
    shares = []
    for answers in counts:
        n = sum(answers.values())
        if n > 1:
            shares.append(sum(k * (k - 1) for k in answers.values()) / (n * (n - 1)))
    return (sum(shares) / len(shares) if shares else None), len(shares)


def advice(project: Project, per_item: list[int]) -> list[str]:
    """What to do next, in words."""
    lacking = [n for n in per_item if n < ENOUGH_PER_ITEM]
    missing = (sum(ENOUGH_PER_ITEM - n for n in lacking) + 1) // 2
    if not per_item:
        return [_("Import items: there is nothing to judge yet.")]
    if project.state != Project.State.OPEN:
        return [_("The study is not open, so no answers come in.")]
    if not lacking:
        return [
            _("Every item has at least %(n)d answers. Look at the intervals: where they overlap, more answers help.")
            % {"n": ENOUGH_PER_ITEM}
        ]
    words = ngettext(
        "%(items)d item has fewer than %(enough)d answers; about %(missing)d more answers would bring it there.",
        "%(items)d items have fewer than %(enough)d answers; about %(missing)d more answers would bring them there.",
        len(lacking),
    )
    return [words % {"items": len(lacking), "enough": ENOUGH_PER_ITEM, "missing": missing}]


def over_time(standing: Any) -> Picture:
    """Answers in each minute, hour or day, and all together so far."""
    ends = standing.aggregate(first=Min("created_at"), last=Max("created_at"))
    trunc, unit, step = _unit(ends["first"], ends["last"])
    counted = standing.order_by().annotate(at=trunc("created_at")).values_list("at").annotate(n=Count("pk"))
    rows = list(counted.order_by("at"))
    times, counts = [row[0].isoformat() for row in rows], [row[1] for row in rows]
    total, so_far = 0, []
    for count in counts:
        total += count
        so_far.append(total)
    width = 900 * step.total_seconds()  # milliseconds: the bars nearly touch
    bars = {"type": "bar", "x": times, "y": counts, "width": width, "name": unit, "marker": {"color": "--c3"}}
    line = {
        "type": "scatter",
        "mode": "lines" if len(times) > 1 else "markers",
        "x": times,
        "y": so_far,
        "yaxis": "y2",
        "name": _("so far"),
        "line": {"color": "--c1"},
    }
    layout = {
        "xaxis": {"type": "date", **_room_around([row[0] for row in rows], step)},
        "yaxis": axis(unit, rangemode="tozero"),
        "yaxis2": axis(_("so far"), overlaying="y", side="right", rangemode="tozero", tickmode="auto", showgrid=False),
    }
    table = Table([_("From"), unit, _("so far")], [list(row) for row in zip(times, counts, so_far, strict=True)])
    words = _("%(n)d answers so far; the most %(unit)s were %(most)d.") % {
        "n": total,
        "unit": unit,
        "most": max(counts, default=0),
    }
    return Picture("over-time", _("Answers over time"), words, [bars, line], layout, 320, table)


def _unit(first: datetime | None, last: datetime | None) -> tuple[Any, str, timedelta]:
    span = last - first if first and last else timedelta(0)
    if span <= MINUTES_UP_TO:
        return TruncMinute, _("per minute"), timedelta(minutes=1)
    if span <= HOURS_UP_TO:
        return TruncHour, _("per hour"), timedelta(hours=1)
    return TruncDay, _("per day"), timedelta(days=1)


def _room_around(times: list[datetime], step: timedelta) -> dict[str, Any]:
    """An axis that shows at least a few steps: around a single bar plotly would draw fractions of a second."""
    if not times or times[-1] - times[0] >= FEWEST_STEPS * step:
        return {}
    middle = times[0] + (times[-1] - times[0]) / 2
    return {"range": [(middle + side * step * FEWEST_STEPS / 2).isoformat() for side in (-1, 1)]}


def _bars(name: str, title: str, x: str, y: str, counts: list[int]) -> Picture:
    """How many have how many answers, in at most BARS bars."""
    width = max(1, -(-(max(counts, default=0) + 1) // BARS))
    tally = Counter(count // width for count in counts)
    starts = range(max(tally, default=0) + 1)
    labels = [str(k) if width == 1 else f"{k * width}–{(k + 1) * width - 1}" for k in starts]
    trace = {"type": "bar", "x": labels, "y": [tally[k] for k in starts], "marker": {"color": "--c1"}}
    words = _("From %(least)d to %(most)d, on average %(mean).1f.") % {
        "least": min(counts, default=0),
        "most": max(counts, default=0),
        "mean": sum(counts) / max(len(counts), 1),
    }
    layout = {"xaxis": axis(x, type="category"), "yaxis": axis(y), "showlegend": False, "bargap": 0.1}
    table = Table([x, y], [[label, tally[k]] for label, k in zip(labels, starts, strict=True)])
    return Picture(name, title, f"{title}. {words}", [trace], layout, 280, table)
