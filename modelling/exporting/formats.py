"""A table as bytes, piece by piece: CSV, JSON, JSON lines, Parquet. Text never becomes a formula, no number is NaN."""

import csv
import io
import json
import math
from collections.abc import Callable, Iterator
from datetime import datetime
from types import ModuleType
from typing import IO, Any

from django.utils.translation import gettext as _

from modelling.exporting.points import NoExport
from modelling.exporting.tables import Cells, Column, Page, Table

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")
CONTENT_TYPES = {
    "csv": "text/csv; charset=utf-8",
    "json": "application/json",
    "jsonl": "application/x-ndjson",
    "parquet": "application/vnd.apache.parquet",
}

ROW_GROUP = 50_000  # rows that readers of Parquet can skip at a time


def write(table: Table, format: str, file: IO[bytes]) -> None:
    """The table is in this file."""
    for piece in pieces(table, format):
        file.write(piece)


def pieces(table: Table, format: str) -> Iterator[bytes]:
    """The bytes of the file, one piece for each page of the table."""
    return FORMATS[format](table)


def neutral(cell: Any) -> Any:
    """The cell, with an apostrophe before a text that a spreadsheet would run."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULA_STARTS) else cell


def _csv(table: Table) -> Iterator[bytes]:
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow([neutral(name) for name in table.names])
    yield _taken(text)
    for page in table.pages():
        writer.writerows(_rows(page, table.columns, _for_csv))
        yield _taken(text)


def _taken(text: io.StringIO) -> bytes:
    """What was written since the last time."""
    said = text.getvalue().encode()
    text.seek(0)
    text.truncate()
    return said


def _rows(page: Page, columns: list[Column], convert: Callable[[Column, Cells], Cells]) -> Iterator[Cells]:
    """The rows of a page with every cell converted."""
    return zip(*(convert(column, cells) for column, cells in zip(columns, page, strict=True)), strict=True)


def _for_csv(column: Column, cells: Cells) -> Cells:
    if column.kind is bool:
        return ["" if cell is None else "true" if cell else "false" for cell in cells]
    if column.kind is object or (column.kind is str and _may_run(cells)):
        return [neutral(cell) for cell in cells]
    return _plain(column, cells)


def _may_run(texts: Cells) -> bool:
    """Whether one of them begins as formulas do: seen by their first letters, of which there are few."""
    return not {text[0] for text in texts if text}.isdisjoint(FORMULA_STARTS)


def _plain(column: Column, cells: Cells) -> Cells:
    """As JSON has them: no number that is none."""
    if column.kind is float:
        return [None if cell is None or not math.isfinite(cell) else cell for cell in cells]
    return cells


def _jsonl(table: Table) -> Iterator[bytes]:
    for page in table.pages():
        yield "".join(f"{line}\n" for line in _lines(page, table)).encode()


def _lines(page: Page, table: Table) -> Iterator[str]:
    names = table.names
    for row in _rows(page, table.columns, _plain):
        yield plain_json(dict(zip(names, row, strict=True)))


def plain_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _json(table: Table) -> Iterator[bytes]:
    head = {"table": table.name, "version": table.version, "as_of_seq": table.as_of_seq, "columns": table.names}
    yield plain_json(head).removesuffix("}").encode() + b',"rows":[\n'
    between = ""
    for page in table.pages():
        lines = ",\n".join(_lines(page, table))
        if lines:
            yield f"{between}{lines}".encode()
            between = ",\n"
    yield b"\n]}\n"


def arrow() -> tuple[ModuleType, ModuleType]:
    """pyarrow and its Parquet half; NoExport, in words, where they are not installed."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise NoExport(
            _("Parquet needs the package pyarrow, which is not installed here: pip install 'concord[export]'.")
        ) from None
    return pyarrow, pyarrow.parquet


def _parquet(table: Table) -> Iterator[bytes]:
    """Row groups as they come; the file's own notes say which table, version and event it is of."""
    pa, parquet = arrow()
    notes = {"table": table.name, "version": str(table.version or ""), "as_of_seq": str(table.as_of_seq)}
    types = {int: pa.int64(), float: pa.float64(), str: pa.string(), bool: pa.bool_()}
    types |= {datetime: pa.timestamp("us", tz="UTC")}
    schema = pa.schema([(column.name, types[column.kind]) for column in table.columns], metadata=notes)
    basket, held = Basket(), []
    with parquet.ParquetWriter(basket, schema, compression="zstd") as writer:
        for page in table.pages():
            packed = [_packed(pa, column, own) for column, own in zip(table.columns, page, strict=True)]
            held.append(pa.record_batch([each.cast(f.type) for each, f in zip(packed, schema, strict=True)], schema))
            if sum(map(len, held)) >= ROW_GROUP:
                writer.write_table(pa.Table.from_batches(held))
                held.clear()
            yield basket.take()
        if held:
            writer.write_table(pa.Table.from_batches(held))
    yield basket.take()


def _packed(pa: ModuleType, column: Column, cells: Cells) -> Any:
    """A column's cells as arrow holds them; the texts of times are read by arrow itself."""
    types = {int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
    return pa.array(_plain(column, cells), type=types.get(column.kind, pa.string()))


class Basket(io.RawIOBase):
    """A file that is carried away while it is written."""

    def __init__(self) -> None:
        self.held: list[bytes] = []
        self.written = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.written

    def write(self, said: Any) -> int:
        self.held.append(bytes(said))
        self.written += len(self.held[-1])
        return len(self.held[-1])

    def take(self) -> bytes:
        held, self.held = self.held, []
        return b"".join(held)


FORMATS: dict[str, Callable[[Table], Iterator[bytes]]] = {
    "csv": _csv,
    "json": _json,
    "jsonl": _jsonl,
    "parquet": _parquet,
}
