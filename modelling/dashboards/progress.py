"""The progress page: judgements over time, per item and per worker, agreement, and what to do next."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import accumulate, islice
from typing import Any

from django.db.models import CharField
from django.db.models.functions import Cast, Left
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from annotation.http.arm_filter import EVERY_ARM, ArmFilter
from annotation.models import Arm, Judgement, Project
from annotation.models.arms import Design
from modelling.dashboards.common.figures import Figure, FigureTable, axis
from modelling.dashboards.common.freshness import Freshness
from modelling.dashboards.model.scoreboard import accuracy_summary
from modelling.models import ModelSnapshot
from modelling.training.inputs import get_read_point
from modelling.training.votes import training_judgements

MINUTES_UP_TO, HOURS_UP_TO = timedelta(hours=3), timedelta(days=4)
ENOUGH_PER_ITEM = 10  # judgements; with about this many, intervals become narrower than the differences between items
MAX_BARS = 20
CHUNK = 10_000
MIN_STEPS = 6  # minutes, hours or days on the time axis


@dataclass(frozen=True)
class Agreement:
    """How often two judgements of a pair agree: by two workers (`between`), and by the same worker (`within`)."""

    between: float | None
    pairs: int
    within: float | None
    repeats: int


@dataclass(frozen=True)
class JudgementCounts:
    """The valid judgements of a study, counted by item, worker and minute."""

    by_item: Counter[int]
    by_worker: Counter[int]
    by_minute: Counter[str]

    @property
    def total(self) -> int:
        return self.by_worker.total()

    def per_active_item(self, design: Design) -> list[int]:
        return [self.by_item[pk] for pk in design.items.values_list("pk", flat=True)]


@dataclass(frozen=True)
class ProgressPage:
    judgements: int
    workers: dict[str, int]
    per_item: float
    agreement: Agreement | None
    accuracy: str
    advice: str
    figures: list[Figure]
    arms: ArmFilter


def progress_page(freshness: Freshness, arms: ArmFilter = EVERY_ARM) -> ProgressPage:
    """Counts of the judgements so far; agreement among those of the shown version. With an arm, only its judgements."""
    project = freshness.project
    counts = count_judgements(project, arms)
    per_item, per_worker = counts.per_active_item(Design(project, arms.chosen)), list(counts.by_worker.values())
    n = counts.total
    figures = [
        time_figure(counts.by_minute),
        _histogram("per-item", _("Judgements per item"), _("judgements"), _("items"), per_item),
        _histogram("per-worker", _("Judgements per worker"), _("judgements"), _("workers"), per_worker),
    ]
    return ProgressPage(
        judgements=n,
        workers=project.workers.filter(**arms.of_workers).activity_counts(timezone.now()),
        per_item=sum(per_item) / len(per_item) if per_item else 0.0,
        agreement=compute_agreement(freshness.snapshot, arms.chosen) if freshness.snapshot else None,
        accuracy=accuracy_summary(project, freshness.version_number),
        advice=next_step(project, per_item),
        figures=figures if n else [],
        arms=arms,
    )


def count_judgements(project: Project, arms: ArmFilter = EVERY_ARM) -> JudgementCounts:
    """Count the valid judgements in one pass over the rows.

    Times are cut to the minute as text: SQLite's date functions would call back into Python for every row.
    """
    minute = Left(Cast("created_at", CharField()), len("2000-12-31 23:59"))
    valid = Judgement.objects.answers().filter(project=project, **arms.of_judgements).order_by()
    rows = valid.values_list("item_lo", "item_hi", "worker", minute).iterator(chunk_size=CHUNK)
    counts = JudgementCounts(Counter(), Counter(), Counter())
    while part := list(islice(rows, CHUNK)):
        lo, hi, workers, minutes = zip(*part, strict=True)
        counts.by_item.update(lo)
        counts.by_item.update(hi)
        counts.by_worker.update(workers)
        counts.by_minute.update(minutes)
    return counts


def compute_agreement(snapshot: ModelSnapshot, arm: Arm | None = None) -> Agreement:
    """Return the agreement in a version or arm, cached until a worker is erased or another input changes."""
    return _agreement(snapshot, snapshot.checksum, get_read_point(snapshot.project).inputs_revision, arm)


@lru_cache(maxsize=32)
def _agreement(snapshot: ModelSnapshot, checksum: str, inputs_revision: int, arm: Arm | None) -> Agreement:
    judgements = training_judgements(snapshot).filter(**({"worker__arm": arm} if arm else {}))
    rows = judgements.values_list("worker", "item_lo", "item_hi", "choice")
    own: dict[tuple[int, int, int], list[str]] = defaultdict(list)
    for worker, lo, hi, choice in rows.iterator(chunk_size=CHUNK):
        own[worker, lo, hi].append(choice)
    pairs: dict[tuple[int, int], list[str]] = defaultdict(list)
    for (_worker, lo, hi), choices in own.items():
        pairs[lo, hi].append(choices[0])
    between, n_pairs = agreement_rate(pairs.values())
    within, n_repeats = agreement_rate(own.values())
    return Agreement(between, n_pairs, within, n_repeats)


def agreement_rate(choices_by_pair: Iterable[list[str]]) -> tuple[float | None, int]:
    """Mean probability that two choices for a pair are the same, and the number of pairs with two or more."""
    shares = []
    for choices in choices_by_pair:
        n = len(choices)
        if n > 1:
            shares.append(sum(k * (k - 1) for k in Counter(choices).values()) / (n * (n - 1)))
    return (sum(shares) / len(shares) if shares else None), len(shares)


def next_step(project: Project, per_item: list[int]) -> str:
    """Advice on what to do next."""
    lacking = [n for n in per_item if n < ENOUGH_PER_ITEM]
    missing = (sum(ENOUGH_PER_ITEM - n for n in lacking) + 1) // 2
    if not per_item:
        return _("There are no active items. Import items first.")
    if project.state != Project.State.OPEN:
        return _("The study is not open, so no judgements come in.")
    if not lacking:
        message = _("Every item has at least %(n)d judgements. More judgements help where the intervals overlap.")
        return message % {"n": ENOUGH_PER_ITEM}
    message = ngettext(
        "%(items)d item has fewer than %(enough)d judgements; about %(missing)d more judgements are needed.",
        "%(items)d items have fewer than %(enough)d judgements; about %(missing)d more judgements are needed.",
        len(lacking),
    )
    return message % {"items": len(lacking), "enough": ENOUGH_PER_ITEM, "missing": missing}


def time_figure(by_minute: Counter[str]) -> Figure:
    """Judgements per minute, hour or day, and their running total."""
    rows, unit, step = _group_by_step(by_minute)
    times, counts = [row[0].isoformat() for row in rows], [row[1] for row in rows]
    totals = list(accumulate(counts))
    width = 900 * step.total_seconds()  # milliseconds: the bars nearly touch
    bars = {"type": "bar", "x": times, "y": counts, "width": width, "name": unit, "marker": {"color": "--c3"}}
    line = {
        "type": "scatter",
        "mode": "lines" if len(times) > 1 else "markers",
        "x": times,
        "y": totals,
        "yaxis": "y2",
        "name": _("total"),
        "line": {"color": "--c1"},
    }
    layout = {
        "xaxis": {"type": "date", **_min_range([row[0] for row in rows], step)},
        "yaxis": axis(unit, rangemode="tozero"),
        "yaxis2": axis(_("total"), overlaying="y", side="right", rangemode="tozero", tickmode="auto", showgrid=False),
    }
    table = FigureTable([_("From"), unit, _("total")], [list(row) for row in zip(times, counts, totals, strict=True)])
    description = _("%(n)d judgements so far; at most %(most)d %(unit)s.") % {
        "n": sum(counts),
        "unit": unit,
        "most": max(counts, default=0),
    }
    return Figure("over-time", _("Judgements over time"), description, [bars, line], layout, 320, table)


def _group_by_step(by_minute: Counter[str]) -> tuple[list[tuple[datetime, int]], str, timedelta]:
    """Counts per minute, hour or day in order of time, with the name and length of the step."""
    ends = [_parse_time(f(by_minute)) for f in (min, max)] if by_minute else [datetime.now(UTC)] * 2
    step, unit, prefix = _choose_step(ends[1] - ends[0])
    counts: Counter[str] = Counter()
    for minute, count in by_minute.items():
        counts[minute[:prefix]] += count
    return [(_parse_time(at), count) for at, count in sorted(counts.items())], unit, step


def _parse_time(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def _choose_step(span: timedelta) -> tuple[timedelta, str, int]:
    """A step, its name, and how many characters of a time identify it."""
    if span <= MINUTES_UP_TO:
        return timedelta(minutes=1), _("per minute"), len("2000-12-31 23:59")
    if span <= HOURS_UP_TO:
        return timedelta(hours=1), _("per hour"), len("2000-12-31 23")
    return timedelta(days=1), _("per day"), len("2000-12-31")


def _min_range(times: list[datetime], step: timedelta) -> dict[str, Any]:
    """Axis range of at least MIN_STEPS: around a single bar, Plotly would show fractions of a second."""
    if not times or times[-1] - times[0] >= MIN_STEPS * step:
        return {}
    middle = times[0] + (times[-1] - times[0]) / 2
    return {"range": [(middle + side * step * MIN_STEPS / 2).isoformat() for side in (-1, 1)]}


def _histogram(name: str, title: str, x: str, y: str, counts: list[int]) -> Figure:
    """Distribution of these counts in at most MAX_BARS bars."""
    width = max(1, -(-(max(counts, default=0) + 1) // MAX_BARS))
    bins = Counter(count // width for count in counts)
    starts = range(max(bins, default=0) + 1)
    labels = [str(k) if width == 1 else f"{k * width}–{(k + 1) * width - 1}" for k in starts]
    trace = {"type": "bar", "x": labels, "y": [bins[k] for k in starts], "marker": {"color": "--c1"}}
    description = _("From %(least)d to %(most)d, on average %(mean).1f.") % {
        "least": min(counts, default=0),
        "most": max(counts, default=0),
        "mean": sum(counts) / max(len(counts), 1),
    }
    layout = {"xaxis": axis(x, type="category"), "yaxis": axis(y), "showlegend": False, "bargap": 0.1}
    table = FigureTable([x, y], [[label, bins[k]] for label, k in zip(labels, starts, strict=True)])
    return Figure(name, title, f"{title}. {description}", [trace], layout, 280, table)
