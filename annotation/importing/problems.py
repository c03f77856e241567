"""Problems found in an import file, listed once per kind, and the exceptions that report them by line and column."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import islice

from django.utils.formats import number_format
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from annotation.exceptions import RequestError

MAX_SHOWN = 20  # kinds of problems listed
MAX_VALUES = 100  # values quoted per problem
MAX_QUOTED = 60
VALUES = "%(values)s"


@dataclass(frozen=True, slots=True)
class Problem:
    """One kind of problem in one column: its first line, and the number of lines that have it.

    `column` is the name in the header, or "" for the whole line.
    """

    line: int
    column: str
    message: str
    count: int = 1

    def __str__(self) -> str:
        if self.column:
            place = _("Line %(line)s, column “%(column)s”") % {"line": self.line, "column": self.column}
        else:
            place = _("Line %(line)s") % {"line": self.line}
        if self.count == 1:
            return f"{place}: {self.message}"
        more = ngettext("(and %(count)s more line)", "(and %(count)s more lines)", self.count - 1)
        return f"{place}: {self.message} " + more % {"count": f"{self.count - 1:,}"}


class ImportFileError(RequestError):
    """The file cannot be imported; nothing was written."""

    status = 422
    title = gettext_lazy("The file cannot be imported.")
    detail = gettext_lazy("Nothing was imported, and existing data are unchanged. Correct the file and try again.")

    def __init__(self, title: str = "", problems: Sequence[Problem] = (), n_hidden: int = 0) -> None:
        self.title = title or str(self.title)  # type: ignore[assignment]
        self.problems = list(problems)
        self.n_hidden = n_hidden  # kinds of problems that are not listed
        super().__init__(self.format_text())

    @property
    def total(self) -> int:
        """The number of problems of the listed kinds, counting each line once per kind."""
        return sum(problem.count for problem in self.problems)

    def format_text(self) -> str:
        """Format title, problems and advice as plain text for a terminal."""
        lines = [str(self.title), *(f"  {problem}" for problem in self.problems)]
        if self.n_hidden:
            lines.append("  " + _("… and %(count)s more kinds of problems.") % {"count": format_count(self.n_hidden)})
        return "\n".join([*lines, str(self.detail)])


class FileTooLarge(ImportFileError):
    status = 413
    title = gettext_lazy("The file is too large.")
    detail = gettext_lazy("Nothing was imported. Split the file and import the parts one by one.")


class NotATextFile(ImportFileError):
    status = 415
    title = gettext_lazy("This is not a text file with columns.")
    detail = gettext_lazy(
        "Nothing was imported. Save the table as “CSV UTF-8” or as an Excel workbook (.xlsx) and import that file."
    )


@dataclass(slots=True)
class _Kind:
    """One kind of problem, collected while the file is read; `values` holds the distinct values in order."""

    line: int
    last_line: int = 0
    count: int = 0
    values: dict[str, None] = field(default_factory=dict)


class ProblemList:
    """Collect problems while a file is read, one entry per kind with its first line, count and values."""

    def __init__(self) -> None:
        self._kinds: dict[tuple[str, str], _Kind] = {}

    def add(self, line: int, column: str, message: str, value: str = "") -> None:
        """Count a problem; `%(values)s` in the message stands for the distinct values of its kind."""
        kind = self._kinds.setdefault((column, message), _Kind(line))
        kind.count += line != kind.last_line  # a line counts once for all its values
        kind.line, kind.last_line = min(kind.line, line), line
        if value:
            kind.values[value] = None

    def raise_if_any(self) -> None:
        if not self._kinds:
            return
        found = [
            Problem(kind.line, column, message.replace(VALUES, _join(kind.values)), kind.count)
            for (column, message), kind in self._kinds.items()
        ]
        found.sort(key=lambda problem: problem.line)
        total = sum(problem.count for problem in found)
        title = ngettext("The file has %(count)s problem.", "The file has %(count)s problems.", total)
        shown = found[:MAX_SHOWN]
        raise ImportFileError(title % {"count": format_count(total)}, shown, len(found) - len(shown))


def _join(values: Collection[str]) -> str:
    text = ", ".join(islice(values, MAX_VALUES))
    if len(values) <= MAX_VALUES:
        return text
    return text + " " + _("and %(count)s others") % {"count": f"{len(values) - MAX_VALUES:,}"}


def quote(value: str) -> str:
    """Quote a cell for a message: shortened, on one line, without invisible characters."""
    short = value if len(value) <= MAX_QUOTED else value[:MAX_QUOTED] + "…"
    return "“" + "".join(c if c.isprintable() else "�" for c in short) + "”"


def format_count(count: int) -> str:
    """Format a count for a message, with the separators of the active language."""
    return number_format(count, force_grouping=True)
