"""Parse CSV, TSV, JSON or an Excel workbook into a header and rows; `columns` determines how the columns are used."""

import csv
import unicodedata
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from django.conf import settings
from django.utils.translation import gettext as _

from annotation.importing.file_formats.decoding import open_lines
from annotation.importing.file_formats.json_tables import is_json, json_records
from annotation.importing.file_formats.workbooks import MAX_COLUMNS, is_workbook, workbook_records
from annotation.importing.problems import FileTooLarge, ImportFileError, Problem, ProblemList, quote

MAX_COLUMN_NAME = 200
# The csv module's default limit (131,072) would reject a long cell before its column is known. The limit applies to
# the whole process, so it is raised once: raising and restoring it for each file would race between threads.
MAX_CELL = 1_000_000
csv.field_size_limit(max(csv.field_size_limit(), MAX_CELL))

Row = tuple[int, list[str]]


@dataclass(frozen=True)
class ImportTable:
    """A header and its rows; each row comes with the number of its first line. `notes` say how the file was read."""

    header: list[str]
    rows: Iterator[Row]
    header_line: int = 1
    notes: list[str] = field(default_factory=list)

    def complete_rows(self, problems: ProblemList) -> Iterator[Row]:
        """Yield the rows with as many cells as the header; report the others."""
        for line, cells in self.rows:
            if len(cells) == len(self.header):
                yield line, cells
            else:
                counts = {"here": len(cells), "header": len(self.header)}
                problems.add(line, "", _("This line has %(here)s columns, the header has %(header)s.") % counts)


@contextmanager
def open_table(path: Path) -> Iterator[ImportTable]:
    """Open the table in this file; its rows are read while it is open."""
    notes: list[str] = []
    with closing(_records(path, notes)) as records:
        line, header = next(records, (1, []))
        header = [cell.strip() for cell in header]
        _check_header(line, header)
        yield ImportTable(header, _limit_rows(records), line, notes)


def _records(path: Path, notes: list[str]) -> Generator[Row, None, None]:
    """Yield every record that is not blank, with its first line."""
    if is_workbook(path):
        yield from workbook_records(path, notes)
        return
    lines = open_lines(path, notes)
    first = next(lines, "")
    if is_json(first):
        yield from json_records(chain([first], lines))
        return
    all_lines, delimiter = chain([first], lines), _detect_delimiter(first)
    if first.lstrip("# ").startswith("id\t"):  # UKPConvArg files contain quotation marks that do not quote
        reader = csv.reader(all_lines, delimiter=delimiter, quoting=csv.QUOTE_NONE, strict=True)
    else:
        reader = csv.reader(all_lines, delimiter=delimiter, strict=True)
    while True:
        line = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise ImportFileError(problems=[Problem(line, "", _describe_csv_error(error))]) from None
        if any(cell.strip() for cell in cells):
            yield line, cells


def _detect_delimiter(header: str) -> str:
    """Return the most frequent of comma, semicolon and tab."""
    return max(",;\t", key=header.count)


def _describe_csv_error(error: csv.Error) -> str:
    if "field limit" in str(error):
        message = _("A cell here is longer than %(limit)s characters; perhaps a quotation mark is not closed.")
        return message % {"limit": f"{MAX_CELL:,}"}
    return _("A quotation mark is not closed, or is not doubled inside a quoted cell.")


def _check_header(line: int, header: list[str]) -> None:
    """Check that every column has a short, unique name."""
    if len(header) > MAX_COLUMNS:
        raise ImportFileError(_("The file has more than %(limit)s columns.") % {"limit": f"{MAX_COLUMNS:,}"})
    problems, seen = ProblemList(), set[str]()
    for number, name in enumerate(header, start=1):
        folded = unicodedata.normalize("NFKC", name).casefold()
        if not name:
            problems.add(line, str(number), _("This column has no name in the header."))
        elif len(name) > MAX_COLUMN_NAME or not name.isprintable():
            problems.add(line, quote(name), _("A column name has at most 200 visible characters."))
        elif folded in seen:
            problems.add(line, name, _("Two columns have this name."))
        seen.add(folded)
    problems.raise_if_any()


def _limit_rows(rows: Iterator[Row]) -> Iterator[Row]:
    for number, row in enumerate(rows, start=1):
        if number > settings.IMPORT_MAX_ROWS:
            limit = f"{settings.IMPORT_MAX_ROWS:,}"
            raise FileTooLarge(_("The file has more than %(limit)s rows.") % {"limit": limit})
        yield row
