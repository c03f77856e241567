"""The log as tables: every judgement, and the workers who gave them, up to an event. Workers are random codes."""

from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain
from statistics import median
from typing import Any

from annotation.models import Item, Judgement, Project, Worker
from modelling.exporting.points import Point
from modelling.exporting.tables import PAGE, Column, Page, Table, columns, in_pages, stamped

JUDGEMENT = columns(
    sequence=int, uuid=str, worker=str, a=str, a_revision=int, b=str, b_revision=int, choice=str, skip_reason=str,
    shown_first=str, round=int, source=str, response_ms=int, late=bool, clock_doubtful=bool, created_at=datetime,
    retracted=bool, retracted_sequence=int,
)  # fmt: skip
FIELDS = (
    "sequence", "uuid", "worker", "item_lo", "item_hi", "choice", "skip_reason", "lo_was_left", "round", "source",
    "response_ms", "late", "clock_doubtful", "created_at", "retraction__sequence",
)  # fmt: skip
WORKER = columns(
    worker=str, judgements=int, decided=int, ties=int, skipped=int, retracted=int, median_response_ms=float,
    first_at=datetime, last_at=datetime,
)  # fmt: skip
CHOICES = {"lo": "a", "hi": "b", "tie": "tie", "skip": "skip"}
SHOWN_FIRST = {True: "a", False: "b", None: None}
TRAIT = "trait:"


def judgements(point: Point) -> Table:
    """One row for each judgement, in the order of the log. `a` is the item that came into the project first."""
    return stamped("judgements", point, JUDGEMENT, lambda: _judgement_pages(point), _events(point).count())


def _judgement_pages(point: Point) -> Iterator[Page]:
    """Judgements that an erased person took along are left out, at whatever point."""
    people, items = Names.of(point.project), item_names(point.project)
    for page in pages_of_events(point, FIELDS):
        rows: Page = []
        for (
            sequence, uuid, worker, lo, hi, choice, reason, lo_was_left, round_, source, ms, late, doubtful, at, taken,
        ) in page:  # fmt: skip
            if taken is not None and worker in people.erased:
                continue
            if taken is not None and taken > point.sequence:
                taken = None
            rows.append((
                sequence, str(uuid), people.codes[worker], *items[lo], *items[hi], CHOICES[choice], reason,
                SHOWN_FIRST[lo_was_left], round_, source, ms, late, doubtful, at, taken is not None, taken,
            ))  # fmt: skip
        yield rows


def _events(point: Point) -> Any:
    return Judgement.objects.filter(project=point.project, sequence__lte=point.sequence).order_by("sequence")


def pages_of_events(point: Point, fields: tuple[str, ...]) -> Iterator[list[tuple[Any, ...]]]:
    """The judgements up to a point, page after page by their sequence, which must be the first of the fields.

    No transaction: events never change, so those up to a sequence are one moment.
    """
    events, last = _events(point).values_list(*fields), 0
    while page := list(events.filter(sequence__gt=last)[:PAGE]):
        yield page
        last = page[-1][0]


class Names:
    """The codes of a project's workers, and who of them is gone."""

    def __init__(self, codes: dict[int, str], erased: set[int]) -> None:
        self.codes, self.erased = codes, erased

    @classmethod
    def of(cls, project: Project) -> "Names":
        rows = list(Worker.objects.filter(project=project).values_list("pk", "code", "outcome"))
        return cls({pk: code for pk, code, _ in rows}, {pk for pk, _, outcome in rows if outcome == Worker.ERASED})


def item_names(project: Project) -> dict[int, tuple[str, int]]:
    """Key and revision of each item."""
    rows = Item.objects.filter(project=project).values_list("pk", "key", "revision")
    return {pk: (key, revision) for pk, key, revision in rows}


def workers(point: Point) -> Table:
    """One row for each worker who has judged by then, with what they said about themselves and how much they did."""
    traits = _trait_names(point.project)
    own = [*WORKER, *(Column(f"{TRAIT}{name}", str) for name in traits)]
    size = Worker.objects.filter(project=point.project).count()
    return stamped("workers", point, own, lambda: in_pages(_worker_rows(point, traits)), size)


def _trait_names(project: Project) -> list[str]:
    """Those of the questionnaire in its order, then those that workers brought otherwise."""
    asked = [str(question["name"]) for question in project.questionnaire]
    brought = {
        name for traits in Worker.objects.filter(project=project).values_list("traits", flat=True) for name in traits
    }
    return [*asked, *sorted(brought - set(asked))]


def _worker_rows(point: Point, traits: list[str]) -> Iterator[tuple[Any, ...]]:
    known = _tallies(point)
    for worker in Worker.objects.filter(project=point.project).order_by("pk").iterator(PAGE):
        if (tally := known.get(worker.pk)) is None:
            continue
        done = tally.counts
        told = (worker.traits.get(name) for name in traits)
        yield (
            worker.code, done.total(), done["lo"] + done["hi"], done["tie"], done["skip"], done["retracted"],
            float(median(tally.times)) if tally.times else None, tally.first_at, tally.last_at,
            *(None if value is None else str(value) for value in told),
        )  # fmt: skip


@dataclass
class _Tally:
    """What one worker has done."""

    first_at: datetime
    last_at: datetime
    counts: Counter[str] = field(default_factory=Counter)
    times: "array[int]" = field(default_factory=lambda: array("q"))


def _tallies(point: Point) -> dict[int, _Tally]:
    """By worker; without those who took all they had said along."""
    known: dict[int, _Tally] = {}
    erased = Names.of(point.project).erased
    fields = ("sequence", "worker", "choice", "response_ms", "created_at", "retraction__sequence")
    for _, worker, choice, ms, at, taken in chain.from_iterable(pages_of_events(point, fields)):
        if taken is not None and worker in erased:
            continue
        tally = known.setdefault(worker, _Tally(at, at))
        tally.last_at = at
        tally.counts["retracted" if taken is not None and taken <= point.sequence else choice] += 1
        if ms is not None:
            tally.times.append(ms)
    return known
