"""Read the first worksheet of an Excel workbook (.xlsx) as rows of text, within limits of size and memory."""

import re
import zipfile
from collections.abc import Iterator
from datetime import date, datetime, time
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import ParseError

from defusedxml.common import DefusedXmlException
from django.conf import settings
from django.utils.translation import gettext as _

from annotation.importing.file_formats.decoding import check_size
from annotation.importing.problems import FileTooLarge, ImportFileError, NotATextFile

SIGNATURE = b"PK\x03\x04"
WORKBOOK_PART = "xl/workbook.xml"
MAX_PARTS = 1000
MAX_UNPACKED = 4  # times IMPORT_MAX_BYTES; 200,000 rows of six columns take about one
MAX_COLUMNS = 1000
CONTROL_CHARACTERS = re.compile("[\0\ud800-\udfff]")
UNREADABLE = (
    zipfile.BadZipFile, DefusedXmlException, ParseError, KeyError, ValueError, TypeError, AttributeError, IndexError,
    OSError, EOFError,
)  # fmt: skip

Row = tuple[int, list[str]]


def is_workbook(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(SIGNATURE)) == SIGNATURE


def workbook_records(path: Path, notes: list[str]) -> Iterator[Row]:
    """Yield the rows of the first worksheet that are not blank, each with its number."""
    check_size(path.stat().st_size)
    _check_archive(path)
    try:
        yield from _records(path, notes)
    except UNREADABLE:  # openpyxl does not wrap its parsers' exceptions
        raise ImportFileError(_("The Excel workbook is damaged or protected and cannot be read.")) from None


def _check_archive(path: Path) -> None:
    """Refuse zip archives that are not workbooks, or that would exhaust memory when unpacked."""
    try:
        with zipfile.ZipFile(path) as archive:
            parts = archive.infolist()
    except zipfile.BadZipFile:
        raise NotATextFile(_("This is a damaged zip archive or Excel workbook.")) from None
    if WORKBOOK_PART not in {part.filename for part in parts}:
        raise NotATextFile(
            _("This is %(kind)s, not a text file with columns.") % {"kind": _("a zip archive without a workbook")}
        )
    if len(parts) > MAX_PARTS or sum(part.file_size for part in parts) > MAX_UNPACKED * settings.IMPORT_MAX_BYTES:
        raise FileTooLarge(_("The Excel workbook is too large when it is unpacked."))


def _records(path: Path, notes: list[str]) -> Iterator[Row]:
    from openpyxl import load_workbook  # imported here because it loads numpy, which judging pages do not need

    with path.open("rb") as file:  # a file object, because openpyxl refuses paths without a known extension
        workbook = load_workbook(file, read_only=True, data_only=True, keep_links=False)
        sheet = workbook.worksheets[0]
        _add_notes(notes, sheet.title, len(workbook.worksheets))
        sheet.reset_dimensions()  # the dimensions stored in the file may be wrong
        width = 0
        for number, row in enumerate(sheet.iter_rows(values_only=True), start=1):
            if number > settings.IMPORT_MAX_ROWS + MAX_COLUMNS:  # blank rows count too
                raise FileTooLarge(_("The file has more than %(limit)s rows.") % {"limit": f"{number - 1:,}"})
            cells = [_cell_text(value) for value in row[: MAX_COLUMNS + 1]]
            cells = cells[: _used_width(cells)]
            if cells:
                width = width or len(cells)
                yield number, cells + [""] * (width - len(cells))


def _add_notes(notes: list[str], title: str, n_sheets: int) -> None:
    names = {"sheet": title, "count": n_sheets}
    if n_sheets == 1:
        notes.append(_("The Excel worksheet “%(sheet)s” was read.") % names)
    else:
        notes.append(_("Only the first of %(count)s Excel worksheets, “%(sheet)s”, was read.") % names)


def _used_width(cells: list[str]) -> int:
    """The number of columns up to the last cell that is not blank."""
    return max((index for index, cell in enumerate(cells, start=1) if cell.strip()), default=0)


def _cell_text(value: Any) -> str:
    """Format a cell as it would appear in a CSV file: 15 instead of 15.0, times in ISO 8601."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    return CONTROL_CHARACTERS.sub("", str(value))
