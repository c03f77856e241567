"""Responses that the browser saves as a file. File names contain nothing that a person typed."""

import asyncio
import csv
import io
from collections.abc import AsyncIterator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from django.db import close_old_connections
from django.http import HttpResponse, StreamingHttpResponse

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")
READER_THREADS = 2  # its own pool, separate from the threads that handle requests

_readers = ThreadPoolExecutor(READER_THREADS, thread_name_prefix="download")


def attachment(name: str, content: bytes, content_type: str) -> HttpResponse:
    """Return a small file whole."""
    return HttpResponse(content, content_type=content_type, headers=_headers(name))


def csv_attachment(name: str, rows: Iterable[dict[str, Any]], columns: list[str]) -> HttpResponse:
    """Return a small table as CSV, with cells escaped so that spreadsheets do not run them as formulas."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(columns)
    writer.writerows([escape_formula(row[column]) for column in columns] for row in rows)
    return attachment(name, text.getvalue().encode("utf-8-sig"), "text/csv; charset=utf-8")


def escape_formula(cell: Any) -> Any:
    """Put an apostrophe before a text that a spreadsheet would evaluate."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULA_STARTS) else cell


def _headers(name: str) -> dict[str, str]:
    return {"Content-Disposition": f'attachment; filename="{name}"'}


class DownloadResponse(StreamingHttpResponse):
    """A file sent chunk by chunk while it is read.

    Under ASGI Django reads a synchronous iterator to its end before it sends the first byte; this class does not.
    """

    def __init__(self, name: str, chunks: Iterator[bytes], content_type: str, size: int | None = None) -> None:
        super().__init__(chunks, content_type=content_type, headers=_headers(name))
        self.chunks = chunks
        if size is not None:
            self["Content-Length"] = str(size)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        while (chunk := await loop.run_in_executor(_readers, _next_chunk, self.chunks)) is not None:
            yield chunk


def _next_chunk(chunks: Iterator[bytes]) -> bytes | None:
    """Read one chunk in this thread and release its database connection."""
    try:
        return next(chunks, None)
    finally:
        close_old_connections()
