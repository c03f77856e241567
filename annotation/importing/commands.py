"""What `import_items` and `import_judgements` share: project, place, plain words, and a check that writes nothing."""

from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from annotation.importing.folders import table_in
from annotation.importing.problems import ImportRefused
from annotation.models import Project
from annotation.terminal import TerminalCommand, WrongCall


class ImportCommand(TerminalCommand):
    what: str
    table: str  # the name of the file in a folder
    words: str  # what changed, with the names of the counts in it

    def add_arguments(self, parser: CommandParser) -> None:
        self.add_project(parser)
        parser.add_argument("place", metavar="FILE_OR_FOLDER", help=f"a CSV file, or a folder that holds {self.table}")
        parser.add_argument("--check", action="store_true", help="say what would change and write nothing")

    def handle(self, *args: Any, **options: Any) -> None:
        project = self.find_changeable(options["project"])
        try:
            path = table_in(options["place"], self.table)
        except ImportRefused as refused:
            raise WrongCall(refused.in_words()) from None
        self.say(f"Reading {path.name} …")
        try:
            counts = self.take_in(project, path, check=options["check"])
        except ImportRefused as refused:
            raise CommandError(refused.in_words()) from None
        except OSError as error:
            raise CommandError(f"The file cannot be read: {error.strerror}. Nothing was imported.") from None
        said = self.words.format(**counts) + (" Nothing was written: this was a check." if options["check"] else "")
        facts = {"project": project.slug, "file": str(path), "written": not options["check"], **counts}
        self.answer(facts, f"{self.what} of “{project}”: {said}")

    def take_in(self, project: Project, path: Path, *, check: bool) -> dict[str, int]:
        """Imports the file, unless this is a check, and counts what changes."""
        raise NotImplementedError

    def say_sound(self, rows: int) -> None:
        self.say(f"{rows:,} rows are in order …")
