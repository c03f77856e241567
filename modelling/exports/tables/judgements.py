"""Export tables: judgements up to an event, trial answers and current items."""

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from annotation.models import (
    ImportedDetails,
    Judgement,
    JudgementNote,
    TrialAnswer,
    Worker,
)
from annotation.services.items import current_items
from annotation.storage.queries import fetch_rows
from modelling.exports.points import ExportPoint
from modelling.exports.tables.base import (
    PAGE_SIZE,
    POINT_COLUMNS,
    Cells,
    ExportColumn,
    ExportTable,
    Page,
    build_columns,
    event_table,
    format_timestamp,
    rows_to_pages,
)

JUDGEMENT_COLUMNS = build_columns(
    sequence=int, uuid=str, worker=str, a=str, a_revision=int, b=str, b_revision=int, choice=str, skip_reason=str,
    shown_first=str, round=int, source=str, response_ms=int, late=bool, clock_doubtful=bool, created_at=datetime,
    retracted=bool, retracted_sequence=int, worker_number=int, excluded=bool, arm=str,
)  # fmt: skip
# Workers' notes and imported details can be erased, so they are not part of the events.
DETAIL_COLUMNS = build_columns(judged_at=datetime, note=str)
EXTRA_PREFIX = "extra:"
# Raw SQL, because millions of rows are read and model instances would take three times as long. Judgements that an
# erased worker retracted are left out at every point.
JUDGEMENTS_SQL = """
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
TRIAL_COLUMNS = build_columns(
    uuid=str, user=str, left=str, right=str, choice=str, skip_reason=str, note=str, response_ms=int,
    created_at=datetime,
)  # fmt: skip
ITEM_COLUMNS = build_columns(key=str, text=str, group=str, revision=int, active=bool)
FEATURE_PREFIX = "feature:"


# Judgements


def judgements(point: ExportPoint) -> ExportTable:
    """One row per judgement in the order of the event log; `a` is the item that was added to the study first.

    Workers are numbered in the order in which they joined, so that an import can restore that order.
    """
    size, extra = judgements_until(point).count(), _extra_names(point)
    columns = [*JUDGEMENT_COLUMNS, *DETAIL_COLUMNS, *(ExportColumn(f"{EXTRA_PREFIX}{name}", str) for name in extra)]

    def pages() -> Iterator[Page]:
        return (_with_details(point, page, extra) for page in judgement_pages(point))

    return event_table("judgements", point, columns, pages, size)


def _extra_names(point: ExportPoint) -> list[str]:
    """List the extra columns of imported judgements in order of appearance."""
    details = _details_until(point, point.sequence).order_by("judgement__sequence")
    rows = details.values_list("columns", flat=True).iterator(PAGE_SIZE)
    return list(dict.fromkeys(name for columns in rows for name in columns))


def _details_until(point: ExportPoint, last: int, first: int = 1) -> Any:
    return ImportedDetails.objects.filter(judgement__project=point.project, judgement__sequence__range=(first, last))


def _with_details(point: ExportPoint, page: Page, extra: list[str]) -> Page:
    """Add the time in the imported file, the worker's reason and the extra columns."""
    sequences = page[0]
    details = {
        sequence: (judged_at, columns)
        for sequence, judged_at, columns in _details_until(point, sequences[-1], sequences[0]).values_list(
            "judgement__sequence", "judged_at", "columns"
        )
    }
    found = JudgementNote.objects.filter(
        judgement__project=point.project, judgement__sequence__range=(sequences[0], sequences[-1])
    )
    notes = dict(found.values_list("judgement__sequence", "text"))
    times = [details.get(sequence, (None, {}))[0] for sequence in sequences]
    columns = [details.get(sequence, (None, {}))[1] for sequence in sequences]
    judged_at = [format_timestamp(moment) if moment else None for moment in times]
    more = [[each.get(name) for each in columns] for name in extra]
    return [*page, judged_at, [notes.get(sequence) for sequence in sequences], *more]


def judgement_pages(point: ExportPoint, *, by_pair: bool = False) -> Iterator[Page]:
    """Read judgements page by page, in the order of the log or pair by pair.

    Needs no transaction: events never change, so those up to a sequence number are a consistent view.
    """
    order, last = (BY_PAIR, (0, 0, 0)) if by_pair else (BY_SEQUENCE, (0,))
    joined = Worker.objects.filter(project=point.project).order_by("pk").values_list("pk", flat=True)
    numbers = {pk: number for number, pk in enumerate(joined, start=1)}
    parameters = (point.sequence, Worker.ERASED, point.project.pk, point.sequence)
    excluded, arms = set(point.exclusion_reasons), point.project.workers.arm_names()
    while found := fetch_rows(JUDGEMENTS_SQL + order, *parameters, *last, PAGE_SIZE):
        sequence, *_, lo, hi = found[-1]
        last = (lo, hi, sequence) if by_pair else (sequence,)
        page = [convert(cells) for convert, cells in zip(CONVERTERS, zip(*found, strict=True), strict=False)]
        *cells, workers = page
        yield [
            *cells,
            [numbers[worker] for worker in workers],
            [worker in excluded for worker in workers],
            [arms.get(worker) for worker in workers],
        ]


def _unconverted(cells: Cells) -> Cells:
    return cells


def _to_uuids(cells: Cells) -> Cells:
    """Format UUIDs, which SQLite stores as 32 hexadecimal digits."""
    if not isinstance(cells[0], str):
        return [str(cell) for cell in cells]
    return [f"{cell[:8]}-{cell[8:12]}-{cell[12:16]}-{cell[16:20]}-{cell[20:]}" for cell in cells]


def _to_booleans(cells: Cells) -> Cells:
    """Convert SQLite's 0 and 1 to booleans."""
    return list(map(bool, cells))


def _to_timestamps(cells: Cells) -> Cells:
    """Convert the database's text to the format of `format_timestamp`."""
    if cells[0].endswith(POSTGRESQL_ZONE):
        cells = [cell[: -len(POSTGRESQL_ZONE)] for cell in cells]
    return [cell.replace(" ", "T") + TIMESTAMP_ENDINGS[len(cell)] for cell in cells]


POSTGRESQL_ZONE = "+00"  # SQLite writes no zone
# The text to append to a timestamp with zero to six fractional digits of a second, by its length.
TIMESTAMP_ENDINGS = {19: ".000000+00:00", **{20 + digits: f"{'0' * (6 - digits)}+00:00" for digits in range(1, 7)}}
CONVERTERS_BY_KIND = {bool: _to_booleans, datetime: _to_timestamps}
CONVERTERS = [
    _to_uuids if column.name == "uuid" else CONVERTERS_BY_KIND.get(column.kind, _unconverted)
    for column in JUDGEMENT_COLUMNS[:-2]  # all that are read; `excluded` and `arm` are looked up by worker
]


def judgements_until(point: ExportPoint) -> Any:
    return Judgement.objects.filter(project=point.project, sequence__lte=point.sequence).order_by("sequence")


# Trial answers


def trials(point: ExportPoint) -> ExportTable:
    """One row per answer that a researcher gave while trying the judging page."""
    rows = TrialAnswer.objects.filter(project=point.project).select_related("user", "left", "right").order_by("pk")

    def cells() -> Iterator[tuple[Any, ...]]:
        for row in rows.iterator(PAGE_SIZE):
            yield (
                str(row.uuid), row.user.get_username() if row.user else None, row.left.key, row.right.key, row.choice,
                row.skip_reason or None, row.note or None, row.response_ms, format_timestamp(row.created_at),
            )  # fmt: skip

    return event_table("trials", point, TRIAL_COLUMNS, lambda: rows_to_pages(cells()), rows.count())


# Items


def items(point: ExportPoint) -> ExportTable:
    """One row per item with its current text, in the order the model reads them; can be imported again."""
    current = list(current_items(point.project).order_by("pk"))
    metadata = _field_names(item.metadata for item in current)
    features = _field_names(item.features for item in current)
    columns = [*ITEM_COLUMNS, *(ExportColumn(name, str) for name in metadata)]
    columns += [ExportColumn(f"{FEATURE_PREFIX}{name}", float) for name in features]

    def cells() -> Iterator[Cells]:
        for item in current:
            yield (
                item.key, item.text, item.group, item.revision, item.active,
                *as_texts(item.metadata, metadata), *(item.features.get(name) for name in features),
            )  # fmt: skip

    return event_table("items", point, columns, lambda: rows_to_pages(cells()), len(current))


def _field_names(mappings: Iterator[dict[str, Any]]) -> list[str]:
    """List the keys in order of appearance, except names of the table's fixed columns."""
    reserved = {column.name for column in [*ITEM_COLUMNS, *POINT_COLUMNS]}
    return [name for name in dict.fromkeys(name for mapping in mappings for name in mapping) if name not in reserved]


def as_texts(values: dict[str, Any], names: list[str]) -> list[str | None]:
    return [None if values.get(name) is None else _as_text(values[name]) for name in names]


def _as_text(answer: Any) -> str:
    """An answer in one cell; several choices are a JSON list, because a choice may contain any separator."""
    return json.dumps(answer, ensure_ascii=False) if isinstance(answer, list) else str(answer)
