"""What can be wrong with a file, in plain words, with line and column."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from annotation.refusals import Refused

MOST_SHOWN = 20
MOST_QUOTED = 60


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong; column is the header's name, or "" where the whole line is meant."""

    line: int
    column: str
    message: str

    def __str__(self) -> str:
        if self.column:
            place = _("Line %(line)s, column “%(column)s”") % {"line": self.line, "column": self.column}
        else:
            place = _("Line %(line)s") % {"line": self.line}
        return f"{place}: {self.message}"


class ImportRefused(Refused):
    """The file was looked at and nothing was written."""

    status = 422
    title = gettext_lazy("The file cannot be imported.")
    detail = gettext_lazy("Nothing was imported; what was there before is safe. Correct the file and try again.")

    def __init__(self, title: str = "", problems: Sequence[Problem] = (), total: int = 0) -> None:
        self.title = title or str(self.title)  # type: ignore[assignment]
        self.problems = list(problems)
        self.total = max(total, len(self.problems))
        super().__init__(self.in_words())

    @property
    def unshown(self) -> int:
        return self.total - len(self.problems)

    def in_words(self) -> str:
        """Everything a person at a terminal needs."""
        lines = [str(self.title), *(f"  {problem}" for problem in self.problems)]
        if self.unshown:
            lines.append("  " + _("… and %(count)s more.") % {"count": f"{self.unshown:,}"})
        return "\n".join([*lines, str(self.detail)])


class TooLarge(ImportRefused):
    status = 413
    title = gettext_lazy("The file is too large.")
    detail = gettext_lazy("Nothing was imported. Split it into smaller files and import them one after the other.")


class NotText(ImportRefused):
    status = 415
    title = gettext_lazy("This is not a text file with columns.")
    detail = gettext_lazy("Nothing was imported. Save the table as “CSV UTF-8” and import that file.")


class Problems:
    """Collects what is wrong while a file is read: the first few in full, the rest as a number."""

    def __init__(self) -> None:
        self.first: list[Problem] = []
        self.total = 0

    def add(self, line: int, column: str, message: str) -> None:
        self.total += 1
        if len(self.first) < MOST_SHOWN:
            self.first.append(Problem(line, column, message))

    def refuse_if_any(self) -> None:
        """Goes on only with a file without problems."""
        if self.total:
            title = ngettext("The file has %(count)s problem.", "The file has %(count)s problems.", self.total)
            by_line = sorted(self.first, key=lambda problem: problem.line)
            raise ImportRefused(title % {"count": f"{self.total:,}"}, by_line, self.total)


def quoted(value: str) -> str:
    """A cell as it is shown in a message: short, on one line, with nothing invisible in it."""
    short = value if len(value) <= MOST_QUOTED else value[:MOST_QUOTED] + "…"
    return "“" + "".join(c if c.isprintable() else "�" for c in short) + "”"
