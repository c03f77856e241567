"""Write tables chunk by chunk as CSV, JSON, JSON lines or Parquet, and zip files with reproducible bytes.

In CSV no text becomes a formula; in JSON no number is NaN.
"""

import csv
import io
import json
import math
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from types import ModuleType
from typing import IO, Any

from django.utils.translation import gettext as _

from annotation.http.downloads import FORMULA_STARTS, escape_formula
from modelling.exports.points import ExportError
from modelling.exports.tables.base import Cells, ExportColumn, ExportTable, Page, rows_to_pages

CONTENT_TYPES = {
    "csv": "text/csv; charset=utf-8",
    "json": "application/json",
    "jsonl": "application/x-ndjson",
    "parquet": "application/vnd.apache.parquet",
}
ROW_GROUP_SIZE = 50_000  # rows that Parquet readers can skip at a time
CHUNK_SIZE = 1 << 20


def write_table(table: ExportTable, format: str, file: IO[bytes]) -> None:
    for chunk in table_chunks(table, format):
        file.write(chunk)


def table_chunks(table: ExportTable, format: str) -> Iterator[bytes]:
    """Yield the bytes of the file, one chunk per page of the table."""
    return FORMATS[format](table)


def csv_bytes(columns: list[str], rows: Iterable[list[Any]]) -> bytes:
    """Format rows of mixed cells as CSV."""
    typed = [ExportColumn(column, object) for column in columns]
    return b"".join(_csv_chunks(ExportTable("", typed, lambda: rows_to_pages(rows), 0, None, 0)))


# CSV


def _csv_chunks(table: ExportTable) -> Iterator[bytes]:
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow([escape_formula(name) for name in table.column_names])
    yield _flush(text)
    for page in table.pages():
        writer.writerows(_converted_rows(page, table.columns, _csv_cells))
        yield _flush(text)


def _flush(text: io.StringIO) -> bytes:
    """Return and clear what was written."""
    written = text.getvalue().encode()
    text.seek(0)
    text.truncate()
    return written


def _converted_rows(
    page: Page, columns: list[ExportColumn], convert: Callable[[ExportColumn, Cells], Cells]
) -> Iterator[Cells]:
    return zip(*(convert(column, cells) for column, cells in zip(columns, page, strict=True)), strict=True)


def _csv_cells(column: ExportColumn, cells: Cells) -> Cells:
    if column.kind is bool:
        return ["" if cell is None else "true" if cell else "false" for cell in cells]
    if column.kind is object or (column.kind is str and _has_formula_start(cells)):
        return [escape_formula(cell) for cell in cells]
    return _json_cells(column, cells)


def _has_formula_start(texts: Cells) -> bool:
    """Whether any text starts like a formula; only the few distinct first characters are compared."""
    return not {text[0] for text in texts if text}.isdisjoint(FORMULA_STARTS)


# JSON


def _json_cells(column: ExportColumn, cells: Cells) -> Cells:
    """Replace NaN and infinity by None."""
    if column.kind is float:
        return [None if cell is None or not math.isfinite(cell) else cell for cell in cells]
    return cells


def compact_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _json_rows(page: Page, table: ExportTable) -> Iterator[str]:
    names = table.column_names
    for row in _converted_rows(page, table.columns, _json_cells):
        yield compact_json(dict(zip(names, row, strict=True)))


def _jsonl_chunks(table: ExportTable) -> Iterator[bytes]:
    for page in table.pages():
        yield "".join(f"{line}\n" for line in _json_rows(page, table)).encode()


def json_list_chunks(pages: Iterable[Iterable[str]]) -> Iterator[bytes]:
    """Yield the inside of a JSON list with one entry per line; each page holds entries that are JSON already."""
    separator = ""
    for page in pages:
        lines = ",\n".join(page)
        if lines:
            yield f"{separator}{lines}".encode()
            separator = ",\n"


def _json_chunks(table: ExportTable) -> Iterator[bytes]:
    head = {
        "table": table.name,
        "version": table.version,
        "as_of_seq": table.as_of_seq,
        "columns": table.column_names,
    }
    yield compact_json(head).removesuffix("}").encode() + b',"rows":[\n'
    yield from json_list_chunks(_json_rows(page, table) for page in table.pages())
    yield b"\n]}\n"


# Parquet


def import_pyarrow() -> tuple[ModuleType, ModuleType]:
    """Import pyarrow and pyarrow.parquet; ExportError where the package is not installed."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        message = _("Parquet needs the package pyarrow, which is not installed here: pip install 'concord[export]'.")
        raise ExportError(message) from None
    return pyarrow, pyarrow.parquet


def _parquet_chunks(table: ExportTable) -> Iterator[bytes]:
    """Write row groups as pages arrive; the file's metadata names the table, version and event."""
    pa, parquet = import_pyarrow()
    metadata = {"table": table.name, "version": str(table.version or ""), "as_of_seq": str(table.as_of_seq)}
    types = {int: pa.int64(), float: pa.float64(), str: pa.string(), bool: pa.bool_()}
    types |= {datetime: pa.timestamp("us", tz="UTC")}
    schema = pa.schema([(column.name, types[column.kind]) for column in table.columns], metadata=metadata)
    buffer, pending = ChunkBuffer(), []
    with parquet.ParquetWriter(buffer, schema, compression="zstd") as writer:
        for page in table.pages():
            arrays = [_arrow_array(pa, column, cells) for column, cells in zip(table.columns, page, strict=True)]
            casts = [each.cast(field.type) for each, field in zip(arrays, schema, strict=True)]
            pending.append(pa.record_batch(casts, schema))
            if sum(map(len, pending)) >= ROW_GROUP_SIZE:
                writer.write_table(pa.Table.from_batches(pending))
                pending.clear()
            yield buffer.take()
        if pending:
            writer.write_table(pa.Table.from_batches(pending))
    yield buffer.take()


def _arrow_array(pa: ModuleType, column: ExportColumn, cells: Cells) -> Any:
    """Convert the cells; timestamps stay strings here and are parsed by arrow's cast."""
    types = {int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
    return pa.array(_json_cells(column, cells), type=types.get(column.kind, pa.string()))


# Zip files: no dates and no machine-dependent fields, so that equal content gives equal bytes.

ZIP_DATE = (1980, 1, 1, 0, 0, 0)
UNIX, WORLD_READABLE = 3, 0o100644 << 16


def zip_chunks(files: Mapping[str, Callable[[], Iterable[bytes]]]) -> Iterator[bytes]:
    """Zip these files in this order; each is read only when it is packed."""
    buffer = ChunkBuffer()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, chunks in files.items():
            with archive.open(_zip_entry(name), "w", force_zip64=True) as target:
                for chunk in chunks():
                    target.write(chunk)
                    yield buffer.take()
    yield buffer.take()


def _zip_entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, ZIP_DATE)
    entry.compress_type, entry.create_system, entry.external_attr = zipfile.ZIP_DEFLATED, UNIX, WORLD_READABLE
    return entry


def file_chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_SIZE):
            yield chunk


class ChunkBuffer(io.RawIOBase):
    """A write-only file whose content can be removed while it is being written."""

    def __init__(self) -> None:
        self.pending: list[bytes] = []
        self.written = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.written

    def write(self, content: Any) -> int:
        self.pending.append(bytes(content))
        self.written += len(self.pending[-1])
        return len(self.pending[-1])

    def take(self) -> bytes:
        pending, self.pending = self.pending, []
        return b"".join(pending)


FORMATS: dict[str, Callable[[ExportTable], Iterator[bytes]]] = {
    "csv": _csv_chunks,
    "json": _json_chunks,
    "jsonl": _jsonl_chunks,
    "parquet": _parquet_chunks,
}
