"""Read past judgements from a file: parse and validate its rows, and report problems."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from django.utils.translation import gettext as _

from annotation.forms.judging import MAX_NOTE
from annotation.importing import cells as cell_checks
from annotation.importing.columns import ColumnMap, normalise_name, read_sample, resolve_study, rows_of_study
from annotation.importing.file_formats.tables import open_table
from annotation.importing.judgement_columns import (
    EXTRA_PREFIX,
    TRAIT_PREFIX,
    USE,
    guess_judgement_columns,
    required_uses,
)
from annotation.importing.problems import ImportFileError, ProblemList, quote
from annotation.services.items import MAX_KEY, normalise_newlines

UNDERSCORE = "_"
MAX_WORKER = 200
MAX_CELL = 2000  # characters in a trait or an extra column
MAX_DIGITS = 12
# If no column names the workers, all judgements count as one person's. The name is part of the judgements' UUIDs.
DEFAULT_WORKERS = {"model_a": "arena", "label": "crowd-kit", "left": "evalica"}
FIRST_WORDS = {"a", "left", "first", "1", "model_a", "a1", "item_a", "option_a"}
SECOND_WORDS = {"b", "right", "second", "2", "model_b", "a2", "item_b", "option_b"}
TIE_WORDS = {"tie", "tied", "equal", "draw", "same", "equally good", "tie (bothbad)"}
CHOICES = ("a", "b", "tie")


@dataclass(frozen=True, slots=True)
class ImportedJudgement:
    """One row of the file."""

    line: int
    worker: str
    a: str
    b: str
    choice: str
    pair_in_one_cell: bool = False  # both keys in one cell, separated by an underscore that keys may also contain
    worker_number: int = 0  # the worker's position in the order of joining, if the file has it
    judged_at: datetime | None = None
    response_ms: int | None = None
    note: str = ""
    traits: dict[str, str] = field(default_factory=dict)
    extra: dict[str, str] = field(default_factory=dict)
    study: str = ""


def read_judgements(path: Path, columns: ColumnMap | None = None) -> list[ImportedJudgement]:
    """Read every row of the file, or raise ImportFileError with its problems."""
    sample = read_sample(path)
    if not sample.header:
        raise ImportFileError(_("At least 1 judgement is needed.") + " " + _("The file is empty."))
    columns = columns or guess_judgement_columns(sample)
    columns.require(required_uses(columns))
    columns = resolve_study(path, columns)
    problems = ProblemList()
    with open_table(path) as table:
        reader = _RowReader(columns, problems)
        rows = [
            reader.read(line, cells)
            for line, cells in rows_of_study(table, columns, problems)
            if not reader.is_left_out(cells)
        ]
    rows = _translate_choices(rows, columns)
    check_judgements(rows, columns, problems)
    problems.raise_if_any()
    if not rows:
        raise ImportFileError(_("At least 1 judgement is needed.") + " " + _("The file has a header but no rows."))
    return rows


def clean_judgements(rows: list[ImportedJudgement]) -> list[ImportedJudgement]:
    """Normalise and validate rows that did not come from a file."""
    cleaned = [
        replace(row, worker=row.worker.strip(), a=row.a.strip(), b=row.b.strip(), note=normalise_newlines(row.note))
        for row in rows
    ]
    problems = ProblemList()
    check_judgements(cleaned, ColumnMap([], []), problems)
    problems.raise_if_any()
    return cleaned


class _RowReader:
    """Reads the cells of one row by the uses of its columns; the choice is translated later, with the whole column."""

    def __init__(self, columns: ColumnMap, problems: ProblemList) -> None:
        self.columns, self.problems = columns, problems
        self.index = {use: columns.find(use) for use in USE.values}
        self.traits = columns.named(USE.TRAIT, TRAIT_PREFIX)
        self.extra = columns.named(USE.KEEP, EXTRA_PREFIX)
        names = {normalise_name(name) for name in columns.header}
        self.default_worker = next((DEFAULT_WORKERS[name] for name in DEFAULT_WORKERS if name in names), "unnamed")
        if self.index[USE.PAIR] is not None:
            self.default_worker = "ukpconvarg"

    def is_left_out(self, cells: list[str]) -> bool:
        """Whether to leave the row out: it is marked as retracted, or is a skipped pair in one of Concord's exports."""
        if self.index[USE.RETRACTED] is None:
            return False
        return self._cell(cells, USE.RETRACTED).casefold() == "true" or self._cell(cells, USE.CHOICE) == "skip"

    def read(self, line: int, cells: list[str]) -> ImportedJudgement:
        a, b, choice = self._pair(cells)
        number = self._cell(cells, USE.WORKER_NUMBER)
        return ImportedJudgement(
            line=line,
            worker=self.default_worker if self.index[USE.WORKER] is None else self._cell(cells, USE.WORKER),
            a=a,
            b=b,
            choice=choice,
            pair_in_one_cell=self.index[USE.PAIR] is not None,
            worker_number=int(number) if number.isdecimal() and len(number) < MAX_DIGITS else 0,
            judged_at=self._parse(line, cells, USE.TIME, cell_checks.parse_time),
            response_ms=self._response_ms(line, cells),
            note=normalise_newlines(self._cell(cells, USE.NOTE)),
            traits={name: cells[index].strip() for name, index in self.traits.items() if cells[index].strip()},
            extra={name: cells[index] for name, index in self.extra.items() if cells[index].strip()},
            study=self._cell(cells, USE.STUDY),
        )

    def _cell(self, cells: list[str], use: str) -> str:
        index = self.index[use]
        return "" if index is None else cells[index].strip()

    def _pair(self, cells: list[str]) -> tuple[str, str, str]:
        if self.index[USE.WINNER] is not None:
            return self._cell(cells, USE.WINNER), self._cell(cells, USE.LOSER), "a"
        choice = self._cell(cells, USE.CHOICE)
        if self.index[USE.PAIR] is None:
            return self._cell(cells, USE.FIRST), self._cell(cells, USE.SECOND), choice
        # Split at the middle underscore; planning corrects the split once the item keys are known.
        parts = self._cell(cells, USE.PAIR).split(UNDERSCORE)
        middle = max(len(parts) // 2, 1)
        return UNDERSCORE.join(parts[:middle]), UNDERSCORE.join(parts[middle:]), choice

    def _response_ms(self, line: int, cells: list[str]) -> int | None:
        if self.index[USE.MILLISECONDS] is not None:
            return self._parse(line, cells, USE.MILLISECONDS, cell_checks.parse_milliseconds)
        return self._parse(line, cells, USE.SECONDS, cell_checks.parse_seconds)

    def _parse(self, line: int, cells: list[str], use: str, parse: Any) -> Any:
        """Parse a cell; None if it is empty or there is no such column."""
        if not (cell := self._cell(cells, use)):
            return None
        try:
            return parse(cell)
        except ValueError as error:
            self.problems.add(line, self.columns.name(use), str(error), quote(cell))
            return None


def _translate_choices(rows: list[ImportedJudgement], columns: ColumnMap) -> list[ImportedJudgement]:
    """Translate the choices to a, b or tie.

    The preferred item is named by its side or by its key. The whole column decides which: a key such as “1” or “a”
    can look like a side.
    """
    if columns.find(USE.CHOICE) is None:
        return rows
    header = columns.name(USE.CHOICE).casefold()
    sides = dict.fromkeys(FIRST_WORDS, "a") | dict.fromkeys(SECOND_WORDS, "b")
    sides |= {columns.name(USE.FIRST).casefold(): "a", columns.name(USE.SECOND).casefold(): "b"}
    ties = dict.fromkeys(TIE_WORDS, "tie")
    votes = Counter[str]()
    for row in rows:
        votes["key"] += row.choice in (row.a, row.b)
        votes["side"] += row.choice.casefold() in sides
    by_key = votes["key"] > votes["side"] or (votes["key"] == votes["side"] and header != USE.CHOICE)
    return [replace(row, choice=_translate(row, ties if by_key else sides | ties, by_key)) for row in rows]


def _translate(row: ImportedJudgement, words: dict[str, str], by_key: bool) -> str:
    if by_key and row.choice in (row.a, row.b):
        return "a" if row.choice == row.a else "b"
    return words.get(row.choice.casefold(), row.choice)


def check_judgements(rows: Iterable[ImportedJudgement], columns: ColumnMap, problems: ProblemList) -> None:
    """Report missing workers, equal or missing items, unknown choices and cells that are too long."""
    has_outcome = columns.find(USE.WINNER) is not None
    first, second = (USE.WINNER, USE.LOSER) if has_outcome else (USE.FIRST, USE.SECOND)
    if columns.find(USE.PAIR) is not None:
        first = second = USE.PAIR
    worker, a, b, choice, note = (columns.name(use) for use in (USE.WORKER, first, second, USE.CHOICE, USE.NOTE))
    itself, invalid = _("An item cannot be compared with itself: %(values)s."), _("Invalid choices: %(values)s.")
    invalid += " " + _("Use a, b or tie, or the key of the preferred item.")
    for row in rows:
        for column, value, max_length in ((worker, row.worker, MAX_WORKER), (a, row.a, MAX_KEY), (b, row.b, MAX_KEY)):
            if message := cell_checks.find_name_problem(value, max_length):
                problems.add(row.line, column, message, quote(value))
        if row.a and row.a == row.b:
            problems.add(row.line, b, itself, quote(row.a))
        if row.choice not in CHOICES:
            problems.add(row.line, choice, invalid, quote(row.choice))
        texts = [(note, row.note, MAX_NOTE), *((name, text, MAX_CELL) for name, text in row.traits.items())]
        for column, text, max_length in [*texts, *((name, text, MAX_CELL) for name, text in row.extra.items())]:
            if message := cell_checks.find_length_problem(text, max_length):
                problems.add(row.line, column, message)
