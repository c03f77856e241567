"""Rankings as files. Text cells can never become formulas; numbers stay numbers."""

import csv
import io
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import IO, Any

from django.http import HttpResponse

from modelling.models import ModelSnapshot

RANKING_COLUMNS = [
    "rank", "key", "group", "mean", "sd", "rank_low", "rank_high",
    "top_10_probability", "polarisation", "judgements", "text", "version", "as_of_seq",
]  # fmt: skip
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")


def ranking_rows(snapshot: ModelSnapshot) -> Iterator[list[Any]]:
    """One row per item, best first, each with the version and the last event it has learned from."""
    for score in snapshot.scores.select_related("item").order_by("rank"):
        item = score.item
        yield [
            score.rank, item.key, item.group, score.mean, score.sd, score.rank_low, score.rank_high,
            score.top_probability, score.polarisation, score.judgements, item.text,
            snapshot.number, snapshot.last_sequence,
        ]  # fmt: skip


def write_csv(file: IO[str], columns: list[str], rows: Iterable[list[Any]]) -> None:
    writer = csv.writer(file)
    writer.writerow(columns)
    writer.writerows([neutral(cell) for cell in row] for row in rows)


def neutral(cell: Any) -> Any:
    """The cell, with an apostrophe before a text that a spreadsheet would run."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULA_STARTS) else cell


@dataclass(frozen=True)
class File:
    """A file to download. Its name is made of a slug and numbers: nothing a person typed gets into a header."""

    name: str
    content: bytes


def ranking_csv(snapshot: ModelSnapshot) -> File:
    return table_csv(f"{snapshot.project.slug}-ranking-v{snapshot.number}", RANKING_COLUMNS, ranking_rows(snapshot))


def table_csv(name: str, columns: list[str], rows: Iterable[list[Any]]) -> File:
    """The numbers behind a picture."""
    text = io.StringIO(newline="")
    write_csv(text, columns, rows)
    return File(f"{name}.csv", text.getvalue().encode())


def csv_response(file: File) -> HttpResponse:
    return _download(file, "text/csv; charset=utf-8")


def zip_response(name: str, files: list[File]) -> HttpResponse:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in files:
            archive.writestr(file.name, file.content)
    return _download(File(name, packed.getvalue()), "application/zip")


def _download(file: File, content_type: str) -> HttpResponse:
    headers = {"Content-Disposition": f'attachment; filename="{file.name}"'}
    return HttpResponse(file.content, content_type=content_type, headers=headers)
