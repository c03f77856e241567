"""The log as tables: every judgement, and the workers who gave them, up to an event. Workers are random codes."""

from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain
from statistics import median
from typing import Any

from annotation.models import Judgement, Project, Worker
from annotation.statements import rows
from modelling.exporting.points import Point
from modelling.exporting.tables import PAGE, Cells, Column, Page, Table, at, columns, in_pages, stamped

JUDGEMENT = columns(
    sequence=int, uuid=str, worker=str, a=str, a_revision=int, b=str, b_revision=int, choice=str, skip_reason=str,
    shown_first=str, round=int, source=str, response_ms=int, late=bool, clock_doubtful=bool, created_at=datetime,
    retracted=bool, retracted_sequence=int, worker_number=int,
)  # fmt: skip
# Written out because a million of them are read at a time: models would take three times as long. What an erased person
# took along is left out, at whatever point.
JUDGEMENTS = """
SELECT j.sequence, j.uuid, w.code, lo.key, lo.revision, hi.key, hi.revision,
    CASE j.choice WHEN 'lo' THEN 'a' WHEN 'hi' THEN 'b' ELSE j.choice END, j.skip_reason,
    CASE WHEN j.lo_was_left THEN 'a' WHEN NOT j.lo_was_left THEN 'b' END,
    j.round, j.source, j.response_ms, j.late, j.clock_doubtful, CAST(j.created_at AS TEXT), r.id IS NOT NULL,
    r.sequence, j.worker_id,
    j.item_lo_id, j.item_hi_id
FROM annotation_judgement j
JOIN annotation_worker w ON w.id = j.worker_id
JOIN annotation_item lo ON lo.id = j.item_lo_id JOIN annotation_item hi ON hi.id = j.item_hi_id
LEFT JOIN annotation_retraction r ON r.judgement_id = j.id AND r.sequence <= %s
WHERE NOT (w.outcome = %s AND EXISTS (SELECT 1 FROM annotation_retraction gone WHERE gone.judgement_id = j.id))
    AND j.project_id = %s AND j.sequence <= %s
"""
BY_SEQUENCE = "AND j.sequence > %s ORDER BY j.sequence LIMIT %s"
BY_PAIR = """AND (j.item_lo_id, j.item_hi_id, j.sequence) > (%s, %s, %s)
ORDER BY j.item_lo_id, j.item_hi_id, j.sequence LIMIT %s"""
WORKER = columns(
    worker=str, judgements=int, decided=int, ties=int, skipped=int, retracted=int, median_response_ms=float,
    first_at=datetime, last_at=datetime,
)  # fmt: skip
TRAIT = "trait:"


def judgements(point: Point) -> Table:
    """One row for each judgement, in the order of the log. `a` is the item that came into the project first.

    Workers are numbered in the order in which they joined, so that an import can put them into it again.
    """
    return stamped("judgements", point, JUDGEMENT, lambda: judgement_pages(point), _events(point).count())


def judgement_pages(point: Point, *, by_pair: bool = False) -> Iterator[Page]:
    """Page after page in the order of the log, or pair after pair.

    No transaction: events never change, so those up to a sequence are one moment.
    """
    order, last = (BY_PAIR, (0, 0, 0)) if by_pair else (BY_SEQUENCE, (0,))
    joined = Worker.objects.filter(project=point.project).order_by("pk").values_list("pk", flat=True)
    numbers = {pk: number for number, pk in enumerate(joined, start=1)}
    known = (point.sequence, Worker.ERASED, point.project.pk, point.sequence)
    while found := rows(JUDGEMENTS + order, *known, *last, PAGE):
        sequence, *_, lo, hi = found[-1]
        last = (lo, hi, sequence) if by_pair else (sequence,)
        page = [convert(cells) for convert, cells in zip(CONVERSIONS, zip(*found, strict=True), strict=False)]
        yield [*page[:-1], [numbers[worker] for worker in page[-1]]]


def _as_they_are(cells: Cells) -> Cells:
    return cells


def _identifiers(cells: Cells) -> Cells:
    """SQLite keeps a UUID as 32 letters."""
    if not isinstance(cells[0], str):
        return [str(cell) for cell in cells]
    return [f"{cell[:8]}-{cell[8:12]}-{cell[12:16]}-{cell[16:20]}-{cell[20:]}" for cell in cells]


def _truths(cells: Cells) -> Cells:
    """SQLite keeps them as 0 and 1."""
    return list(map(bool, cells))


def _moments(cells: Cells) -> Cells:
    """As `at` tells them, from the text that the database has: in UTC, with as many digits of a second as there are."""
    if cells[0].endswith(ZONE):
        cells = [cell[: -len(ZONE)] for cell in cells]
    return [cell.replace(" ", "T") + REST[len(cell)] for cell in cells]


ZONE = "+00"  # said by PostgreSQL and not by SQLite
# What is wanting after "2026-01-02T03:04:05", and after one to six digits of a second.
REST = {19: ".000000+00:00", **{20 + digits: f"{'0' * (6 - digits)}+00:00" for digits in range(1, 7)}}
BY_KIND = {bool: _truths, datetime: _moments}
CONVERSIONS = [
    _identifiers if column.name == "uuid" else BY_KIND.get(column.kind, _as_they_are) for column in JUDGEMENT
]


def _events(point: Point) -> Any:
    return Judgement.objects.filter(project=point.project, sequence__lte=point.sequence).order_by("sequence")


def pages_of_events(point: Point, fields: tuple[str, ...]) -> Iterator[list[tuple[Any, ...]]]:
    """The judgements up to a point, page after page by their sequence, which must be the first of the fields."""
    events, last = _events(point).values_list(*fields), 0
    while page := list(events.filter(sequence__gt=last)[:PAGE]):
        yield page
        last = page[-1][0]


def erased_in(project: Project) -> set[int]:
    return set(Worker.objects.filter(project=project, outcome=Worker.ERASED).values_list("pk", flat=True))


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
            float(median(tally.times)) if tally.times else None, at(tally.first_at), at(tally.last_at),
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
    erased = erased_in(point.project)
    fields = ("sequence", "worker", "choice", "response_ms", "created_at", "retraction__sequence")
    for _, worker, choice, ms, moment, taken in chain.from_iterable(pages_of_events(point, fields)):
        if taken is not None and worker in erased:
            continue
        tally = known.setdefault(worker, _Tally(moment, moment))
        tally.last_at = moment
        tally.counts["retracted" if taken is not None and taken <= point.sequence else choice] += 1
        if ms is not None:
            tally.times.append(ms)
    return known
