"""How the study goes: answers over time, per item and per worker, how far people agree, and what to do next."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import islice
from typing import Any

from django.db.models import CharField
from django.db.models.functions import Cast, Left
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from annotation.models import Judgement, Project
from modelling.dashboards.answers import learned_from
from modelling.dashboards.foretold import in_one_line
from modelling.dashboards.freshness import Freshness
from modelling.dashboards.pictures import Picture, Table, axis
from modelling.inputs import moment_of
from modelling.models import ModelSnapshot

MINUTES_UP_TO, HOURS_UP_TO = timedelta(hours=3), timedelta(days=4)
ENOUGH_PER_ITEM = 10  # judgements; with about so many, intervals become narrower than the differences
BARS = 20
ROWS_AT_ONCE = 10_000
FEWEST_STEPS = 6  # minutes, hours or days on the axis of time


@dataclass(frozen=True)
class Agreement:
    """Of two answers to one pair: how often they are the same, by two workers and by one worker asked again."""

    between: float | None
    pairs: int
    within: float | None
    repeats: int


@dataclass(frozen=True)
class Counts:
    """The standing answers of a study, by the item they are about, by who gave them and by the minute."""

    by_item: Counter[int]
    by_worker: Counter[int]
    by_minute: Counter[str]

    @property
    def answers(self) -> int:
        return self.by_worker.total()

    def of_items(self, project: Project) -> list[int]:
        """One number for each item that is given out."""
        return [self.by_item[pk] for pk in project.items.filter(active=True).values_list("pk", flat=True)]


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
    counted = counts_of(project)
    n, per_item, per_worker = counted.answers, counted.of_items(project), list(counted.by_worker.values())
    mean = sum(per_item) / len(per_item) if per_item else 0.0
    agreement = agreement_of(freshness.snapshot) if freshness.snapshot else None
    pictures = [
        over_time(counted.by_minute),
        _bars("per-item", _("Answers per item"), _("answers"), _("items"), per_item),
        _bars("per-worker", _("Answers per worker"), _("answers"), _("workers"), per_worker),
    ]
    active = project.workers.by_activity(timezone.now())
    foretold = in_one_line(project, freshness.revision)
    return ActivityPage(n, active, mean, agreement, foretold, advice(project, per_item), pictures if n else [])


def counts_of(project: Project) -> Counts:
    """The standing answers, each read once: a statement for each count would read them all again.

    Times are cut where they are text, to the minute: as moments, SQLite would call back for every row.
    """
    minute = Left(Cast("created_at", CharField()), len("2000-12-31 23:59"))
    standing = Judgement.objects.answers().filter(project=project).order_by()
    rows = standing.values_list("item_lo", "item_hi", "worker", minute).iterator(chunk_size=ROWS_AT_ONCE)
    counts = Counts(Counter(), Counter(), Counter())
    while part := list(islice(rows, ROWS_AT_ONCE)):
        lo, hi, workers, minutes = zip(*part, strict=True)
        counts.by_item.update(lo)
        counts.by_item.update(hi)
        counts.by_worker.update(workers)
        counts.by_minute.update(minutes)
    return counts


def agreement_of(snapshot: ModelSnapshot) -> Agreement:
    """Counted once for each version, and again when somebody was erased since."""
    return _agreement(snapshot, snapshot.checksum, moment_of(snapshot.project).inputs_revision)


@lru_cache(maxsize=32)
def _agreement(snapshot: ModelSnapshot, checksum: str, inputs_revision: int) -> Agreement:
    rows = learned_from(snapshot).values_list("worker", "item_lo", "item_hi", "choice")
    own: dict[tuple[int, int, int], list[str]] = defaultdict(list)
    for worker, lo, hi, choice in rows.iterator(chunk_size=ROWS_AT_ONCE):
        own[worker, lo, hi].append(choice)
    pairs: dict[tuple[int, int], list[str]] = defaultdict(list)
    for (_worker, lo, hi), answers in own.items():
        pairs[lo, hi].append(answers[0])
    between, n_pairs = same_answer(pairs.values())
    within, n_repeats = same_answer(own.values())
    return Agreement(between, n_pairs, within, n_repeats)


def same_answer(given: Iterable[list[str]]) -> tuple[float | None, int]:
    """The chance that two answers are the same, the mean over all with two or more, and how many those are."""
    shares = []
    for answers in given:
        n = len(answers)
        if n > 1:
            shares.append(sum(k * (k - 1) for k in Counter(answers).values()) / (n * (n - 1)))
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


def over_time(by_minute: Counter[str]) -> Picture:
    """Answers in each minute, hour or day, and all together so far."""
    rows, unit, step = _in_steps(by_minute)
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


def _in_steps(by_minute: Counter[str]) -> tuple[list[tuple[datetime, int]], str, timedelta]:
    """When how many answers came, in minutes, hours or days, what such a step is called and how long it is."""
    ends = [_moment(f(by_minute)) for f in (min, max)] if by_minute else [datetime.now(UTC)] * 2
    step, unit, letters = _unit(ends[1] - ends[0])
    counts: Counter[str] = Counter()
    for minute, count in by_minute.items():
        counts[minute[:letters]] += count
    return [(_moment(at), count) for at, count in sorted(counts.items())], unit, step


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def _unit(span: timedelta) -> tuple[timedelta, str, int]:
    """A step, its name, and how many letters of a time say in which step it lies."""
    if span <= MINUTES_UP_TO:
        return timedelta(minutes=1), _("per minute"), len("2000-12-31 23:59")
    if span <= HOURS_UP_TO:
        return timedelta(hours=1), _("per hour"), len("2000-12-31 23")
    return timedelta(days=1), _("per day"), len("2000-12-31")


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
