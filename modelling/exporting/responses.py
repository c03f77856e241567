"""Files as answers to a browser: whole, or piece by piece. No name holds anything that a person typed."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from django.db import close_old_connections
from django.http import HttpResponse, StreamingHttpResponse

from annotation.models import Project
from modelling.exporting.formats import CONTENT_TYPES, pieces
from modelling.exporting.tables import Column, Table, file_name, in_pages

STREAMS = 2  # threads that read for downloads; none of them answers a request

_readers = ThreadPoolExecutor(STREAMS, thread_name_prefix="download")


@dataclass(frozen=True)
class File:
    """A file to download. Its name is made of a slug, known words and numbers, so that it is safe in a header."""

    name: str
    content: bytes


def table_csv(name: str, columns: list[str], rows: Iterable[list[Any]]) -> File:
    """The table of a page, or the numbers behind a picture."""
    plain = Table(name, [Column(column, object) for column in columns], lambda: in_pages(rows), 0, None, 0)
    return File(f"{name}.csv", b"".join(pieces(plain, "csv")))


def csv_response(file: File) -> HttpResponse:
    return HttpResponse(file.content, content_type=CONTENT_TYPES["csv"], headers=_attachment(file.name))


def _attachment(name: str) -> dict[str, str]:
    return {"Content-Disposition": f'attachment; filename="{name}"'}


def download(project: Project, table: Table, format: str) -> "Download":
    """This table, read while it is sent."""
    return Download(file_name(project, table, format), pieces(table, format), CONTENT_TYPES[format])


class Download(StreamingHttpResponse):
    """Sent piece by piece while it is read. Django itself would read a plain iterator to its end before sending."""

    def __init__(self, name: str, content: Iterator[bytes], content_type: str) -> None:
        super().__init__(content, content_type=content_type, headers=_attachment(name))
        self.pieces = content

    async def __aiter__(self) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        while (piece := await loop.run_in_executor(_readers, _next, self.pieces)) is not None:
            yield piece


def _next(content: Iterator[bytes]) -> bytes | None:
    """One piece, read in a thread whose database connection is given back at once."""
    try:
        return next(content, None)
    finally:
        close_old_connections()
