"""How each column of a file is used: guessed from its name and first cells, and changeable by the user."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from annotation.importing.file_formats.tables import ImportTable, Row, open_table
from annotation.importing.problems import ImportFileError, Problem, ProblemList, format_count, quote

SAMPLE_ROWS = 500  # enough to tell numbers, times and texts apart
# Uses shared by item and judgement files.
KEEP, SKIP, STUDY = "keep", "skip", "study"
STUDY_NAMES = ("study", "study_id", "study_name", "experiment", "criterion", "dimension")
# Columns that only Concord's own exports have; a new study numbers and dates its rows itself.
EXPORT_MARK = "as_of_seq"


@dataclass(frozen=True)
class ColumnMap:
    """The use of each column; `study` selects the rows with this value in the study column, `split` reads all."""

    header: list[str]
    uses: list[str]
    header_line: int = 1
    study: str | None = None
    split: bool = False

    def find(self, use: str) -> int | None:
        """Return the index of the first column with this use."""
        return self.uses.index(use) if use in self.uses else None

    def find_all(self, use: str) -> list[int]:
        return [index for index, each in enumerate(self.uses) if each == use]

    def name(self, use: str) -> str:
        """The name of the first column with this use, or the use itself, for messages."""
        index = self.find(use)
        return use if index is None else self.header[index]

    def named(self, use: str, prefix: str = "") -> dict[str, int]:
        """Map the names of the columns with this use, without their prefix, to their indexes."""
        return {remove_prefix(self.header[index], prefix): index for index in self.find_all(use)}

    def require(self, uses: Iterable[str]) -> None:
        """Raise an error that names every missing column."""
        missing = [use for use in uses if use not in self.uses]
        message = _("The column “%(name)s” is missing.")
        problems = [Problem(self.header_line, use, message % {"name": use}) for use in missing]
        if problems:
            title = _("Columns are missing: %(names)s. The header has: %(found)s.")
            names, found = (", ".join(map(quote, part)) for part in (missing, self.header[:20]))
            raise MissingColumns(title % {"names": names, "found": found}, problems)


@dataclass(frozen=True)
class TableSample:
    """The header and the first rows of a file, from which the uses of its columns are guessed."""

    header: list[str]
    rows: list[list[str]]
    header_line: int = 1
    notes: list[str] = field(default_factory=list)

    def cells(self, index: int) -> list[str]:
        """The cells of a column that are not blank."""
        return [row[index].strip() for row in self.rows if row[index].strip()]

    @property
    def is_export(self) -> bool:
        return EXPORT_MARK in (normalise_name(name) for name in self.header)


class MissingColumns(ImportFileError):
    """The file lacks columns, or they have other names."""

    detail = gettext_lazy("Nothing was imported. Choose what the columns are used as, or correct the file.")


class StudyNotChosen(ImportFileError):
    """The file has rows from several studies; `studies` counts the rows of each."""

    def __init__(self, studies: Counter[str]) -> None:
        self.studies = studies
        names = ", ".join(f"{quote(study)} ({format_count(count)})" for study, count in studies.most_common(20))
        super().__init__(_("The file has rows of several studies: %(names)s. Choose one.") % {"names": names})


class Guess:
    """Assigns uses to columns; a column that has a use keeps it."""

    def __init__(self, sample: TableSample, own_columns: Sequence[str]) -> None:
        self.sample = sample
        self.names = [normalise_name(name) for name in sample.header]
        self.uses: list[str | None] = [None] * len(self.names)
        if sample.is_export:
            for name in (*own_columns, "version", EXPORT_MARK):
                self.assign(SKIP, name)

    def has(self, *uses: str) -> bool:
        return all(use in self.uses for use in uses)

    def index_of(self, name: str) -> int | None:
        """Return the index of the column with this name if it has no use yet."""
        index = self.names.index(name) if name in self.names else None
        return index if index is not None and self.uses[index] is None else None

    def assign(self, use: str, *names: str) -> None:
        """Assign this use to the first of these columns that the file has."""
        for index in (self.index_of(name) for name in names):
            if index is not None:
                self.uses[index] = use
                return

    def assign_prefixed(self, use: str, prefix: str) -> None:
        for index, name in enumerate(self.sample.header):
            if name.casefold().startswith(prefix):
                self.uses[index] = use

    def finish(self) -> ColumnMap:
        """Return the map; columns without a use are kept as extra columns."""
        return ColumnMap(self.sample.header, [use or KEEP for use in self.uses], self.sample.header_line)


def normalise_name(name: str) -> str:
    """Normalise a column name: fold case, and replace spaces and hyphens by underscores."""
    return name.strip().casefold().replace(" ", "_").replace("-", "_")


def remove_prefix(name: str, prefix: str) -> str:
    """Remove a prefix such as “feature:” from a column name, ignoring case."""
    return name[len(prefix) :].strip() if name.casefold().startswith(prefix) else name


def read_sample(path: Path) -> TableSample:
    """Read the header and the first rows of a file; rows with a wrong number of cells are left out."""
    with open_table(path) as table:
        rows = [cells for _line, cells in islice(table.rows, SAMPLE_ROWS) if len(cells) == len(table.header)]
        return TableSample(table.header, rows, table.header_line, table.notes)


def resolve_study(path: Path, columns: ColumnMap) -> ColumnMap:
    """Choose the only study of the file; raise StudyNotChosen if there are several and none was chosen."""
    if columns.find(STUDY) is None or columns.split:
        return columns
    studies = count_studies(path, columns)
    if columns.study in studies:
        return columns
    if len(studies) > 1:
        raise StudyNotChosen(studies)
    return replace(columns, study=next(iter(studies), None))


def count_studies(path: Path, columns: ColumnMap) -> Counter[str]:
    """Count the rows of each study in the file."""
    index = columns.find(STUDY)
    if index is None:
        return Counter()
    with open_table(path) as table:
        return Counter(cells[index].strip() for _line, cells in table.rows if len(cells) == len(table.header))


def rows_of_study(table: ImportTable, columns: ColumnMap, problems: ProblemList) -> Iterator[Row]:
    """Yield the complete rows of the chosen study, or of all studies."""
    index = columns.find(STUDY)
    for line, cells in table.complete_rows(problems):
        if index is None or columns.split or cells[index].strip() == columns.study:
            yield line, cells
