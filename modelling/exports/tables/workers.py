"""Tables of workers, their IDs and their checks. Workers appear under random codes."""

from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import astuple, dataclass, field
from datetime import datetime
from itertools import chain
from statistics import median
from typing import Any

from annotation.importing.judgements import PLATFORM as IMPORTED
from annotation.models import PlatformIdentity, Project, Worker, WorkerCheck
from annotation.models.questions import Question
from annotation.services.participation.checks import CheckResult, list_results
from modelling.exports.points import ExportPoint
from modelling.exports.tables.base import (
    PAGE_SIZE,
    ExportColumn,
    ExportTable,
    build_columns,
    event_table,
    format_timestamp,
    rows_to_pages,
)
from modelling.exports.tables.judgements import as_texts, judgements_until

WORKER_COLUMNS = build_columns(
    worker=str, judgements=int, decided=int, ties=int, skipped=int, retracted=int, median_response_ms=float,
    first_at=datetime, last_at=datetime, excluded=bool, exclusion_reason=str, arm=str, outcome=str,
    attention_checks=int, attention_failed=int, gold_pairs=int, gold_wrong=int, gold_flagged=bool,
)  # fmt: skip
TRAIT_PREFIX = "trait:"
ANSWER_PREFIX = "answer:"
WORKER_ID_COLUMNS = build_columns(worker=str, platform=str, original_id=str, arm=str)
CHECK_COLUMNS = build_columns(
    worker=str, arm=str, kind=str, number=int, left=str, right=str, expected=str, choice=str, right_answer=bool,
    issued_at=datetime, answered_at=datetime,
)  # fmt: skip


def workers(point: ExportPoint) -> ExportTable:
    """One row per worker with a judgement up to the point, with counts and questionnaire answers."""
    asked = [Question.from_json(stored) for stored in point.project.questionnaire]
    traits = _with_stored("traits", point.project, [question.name for question in asked if question.is_trait])
    answers = _with_stored("answers", point.project, [question.name for question in asked if not question.is_trait])
    names = [f"{TRAIT_PREFIX}{name}" for name in traits] + [f"{ANSWER_PREFIX}{name}" for name in answers]
    columns = [*WORKER_COLUMNS, *(ExportColumn(name, str) for name in names)]
    size = Worker.objects.filter(project=point.project).count()
    return event_table("workers", point, columns, lambda: rows_to_pages(_worker_rows(point, traits, answers)), size)


def _with_stored(field: str, project: Project, names: list[str]) -> list[str]:
    """The question names in the questionnaire's order, then other names stored for workers."""
    rows = Worker.objects.filter(project=project).values_list(field, flat=True)
    return [*names, *sorted({name for row in rows for name in row} - set(names))]


def _worker_rows(point: ExportPoint, traits: list[str], answers: list[str]) -> Iterator[tuple[Any, ...]]:
    activities, reasons = _worker_activities(point), point.exclusion_reasons
    arms, checks = point.project.workers.arm_names(), list_results(point.project)
    for worker in Worker.objects.filter(project=point.project).order_by("pk").iterator(PAGE_SIZE):
        if (activity := activities.get(worker.pk)) is None:
            continue
        counts = activity.counts
        yield (
            worker.code, counts.total(), counts["lo"] + counts["hi"], counts["tie"], counts["skip"],
            counts["retracted"], float(median(activity.response_times)) if activity.response_times else None,
            format_timestamp(activity.first_at), format_timestamp(activity.last_at), worker.pk in reasons,
            reasons.get(worker.pk), arms.get(worker.pk), worker.outcome or None,
            *astuple(checks.get(worker.pk, CheckResult())),
            *as_texts(worker.traits, traits), *as_texts(worker.answers, answers),
        )  # fmt: skip


@dataclass
class WorkerActivity:
    """What one worker did up to a point."""

    first_at: datetime
    last_at: datetime
    counts: Counter[str] = field(default_factory=Counter)
    response_times: "array[int]" = field(default_factory=lambda: array("q"))


def _worker_activities(point: ExportPoint) -> dict[int, WorkerActivity]:
    """Summarise the judgements of each worker, without those that erased workers retracted."""
    activities: dict[int, WorkerActivity] = {}
    erased = Worker.objects.filter(project=point.project, outcome=Worker.ERASED)
    erased_ids = set(erased.values_list("pk", flat=True))
    fields = ("sequence", "worker", "choice", "response_ms", "created_at", "retraction__sequence")
    for _, worker, choice, ms, moment, retracted in chain.from_iterable(_event_pages(point, fields)):
        if retracted is not None and worker in erased_ids:
            continue
        activity = activities.setdefault(worker, WorkerActivity(moment, moment))
        activity.last_at = moment
        activity.counts["retracted" if retracted is not None and retracted <= point.sequence else choice] += 1
        if ms is not None:
            activity.response_times.append(ms)
    return activities


def _event_pages(point: ExportPoint, fields: tuple[str, ...]) -> Iterator[list[tuple[Any, ...]]]:
    """Read these fields of the judgements page by page; the first field must be the sequence."""
    events, last = judgements_until(point).values_list(*fields), 0
    while page := list(events.filter(sequence__gt=last)[:PAGE_SIZE]):
        yield page
        last = page[-1][0]


def worker_ids(point: ExportPoint) -> ExportTable:
    """One row per imported worker with their ID in the file; a separate table, so it is exported only on purpose."""
    identities = PlatformIdentity.objects.filter(project=point.project, platform=IMPORTED)
    rows = identities.order_by("worker").values_list("worker__code", "platform", "external_id", "worker__arm__name")
    return event_table("worker_ids", point, WORKER_ID_COLUMNS, lambda: rows_to_pages(rows), rows.count())


def checks(point: ExportPoint) -> ExportTable:
    """One row per attention check or gold pair that a worker got; their answers are in no other table."""
    rows = WorkerCheck.objects.filter(project=point.project).exclude(worker__outcome=Worker.ERASED).order_by("pk")

    def cells() -> Iterator[tuple[Any, ...]]:
        for row in rows.select_related("worker__arm").iterator(PAGE_SIZE):
            yield (
                row.worker.code, row.worker.arm.name if row.worker.arm else None, row.kind, row.number,
                row.pair.get("left"), row.pair.get("right"), row.expected, row.choice or None,
                row.choice == row.expected if row.answered_at else None, format_timestamp(row.issued_at),
                format_timestamp(row.answered_at) if row.answered_at else None,
            )  # fmt: skip

    return event_table("checks", point, CHECK_COLUMNS, lambda: rows_to_pages(cells()), rows.count())
