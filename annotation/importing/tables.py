"""Lines of text become a header and rows of cells. What a column means is the business of items and judgements."""

import csv
import unicodedata
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from django.conf import settings
from django.utils.translation import gettext as _

from annotation.importing.json_records import is_json, json_records
from annotation.importing.problems import ImportRefused, Problem, Problems, TooLarge, quoted
from annotation.importing.reading import open_lines

MAX_COLUMNS = 1000
MAX_HEADER = 200
# The module's own limit (131,072) would stop at a long cell before its column is known. It belongs to the whole
# process, so it is raised once: raising and restoring it around each file would race between threads.
MAX_CELL = 1_000_000
csv.field_size_limit(max(csv.field_size_limit(), MAX_CELL))

Row = tuple[int, list[str]]


@dataclass(frozen=True)
class Table:
    """A header and the rows below it, each with the number of the line it begins on."""

    header: list[str]
    rows: Iterator[Row]
    line: int = 1  # of the header

    def find(self, *names: str) -> int | None:
        """The place of the first of these columns that the header has, whatever its case."""
        folded = [name.casefold() for name in self.header]
        return next((folded.index(name) for name in names if name in folded), None)

    def even_rows(self, problems: Problems) -> Iterator[Row]:
        """The rows that have as many cells as the header; the others are noted."""
        for line, cells in self.rows:
            if len(cells) == len(self.header):
                yield line, cells
            else:
                counts = {"here": len(cells), "header": len(self.header)}
                message = _("This line has %(here)s columns, the header has %(header)s.") % counts
                problems.add(line, "", message)


@contextmanager
def open_table(path: Path) -> Iterator[Table]:
    """The table in this file, read row by row while it is open."""
    with closing(_records(path)) as records:
        line, header = next(records, (1, []))
        header = [cell.strip() for cell in header]
        _check_header(line, header)
        yield Table(header, _counted(records), line)


def required(table: Table, *names: str) -> int:
    """The place of a column that the file cannot do without."""
    place = table.find(*names)
    if place is None:
        found = ", ".join(quoted(name) for name in table.header[:10])
        words = {"name": names[0], "found": found}
        message = _("There is no column “%(name)s”. The header has: %(found)s.") % words
        raise ImportRefused(problems=[Problem(table.line, names[0], message)])
    return place


def _records(path: Path) -> Generator[Row, None, None]:
    """Every record that is not blank, with the line it begins on."""
    lines = open_lines(path)
    first = next(lines, "")
    if is_json(first):
        yield from json_records(chain([first], lines))
        return
    all_lines, delimiter = chain([first], lines), _delimiter(first)
    if first.lstrip("# ").startswith("id\t"):  # the files of UKPConvArg have quotation marks that quote nothing
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
            raise ImportRefused(problems=[Problem(line, "", _in_words(error))]) from None
        if any(cell.strip() for cell in cells):
            yield line, cells


def _delimiter(header: str) -> str:
    """Comma, or what spreadsheet programs of some countries write in its place."""
    return max(",;\t", key=header.count)


def _in_words(error: csv.Error) -> str:
    if "field limit" in str(error):
        most = f"{MAX_CELL:,}"
        return _("A cell here is longer than %(most)s characters; perhaps a quotation mark is not closed.") % {
            "most": most
        }
    return _("A quotation mark is not closed here, or stands inside a cell without being doubled.")


def _check_header(line: int, header: list[str]) -> None:
    """Every column has a short name of its own."""
    problems = Problems()
    if len(header) > MAX_COLUMNS:
        raise ImportRefused(_("The file has more than %(most)s columns.") % {"most": f"{MAX_COLUMNS:,}"})
    seen: set[str] = set()
    for number, name in enumerate(header, start=1):
        folded = unicodedata.normalize("NFKC", name).casefold()
        if not name:
            problems.add(line, str(number), _("This column has no name in the header."))
        elif len(name) > MAX_HEADER or not name.isprintable():
            problems.add(line, quoted(name), _("A column's name is at most 200 visible characters."))
        elif folded in seen:
            problems.add(line, name, _("Two columns have this name."))
        seen.add(folded)
    problems.refuse_if_any()


def _counted(rows: Iterator[Row]) -> Iterator[Row]:
    for number, row in enumerate(rows, start=1):
        if number > settings.IMPORT_MAX_ROWS:
            raise TooLarge(_("The file has more than %(most)s rows.") % {"most": f"{settings.IMPORT_MAX_ROWS:,}"})
        yield row
