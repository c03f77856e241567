"""Base class for `import_items` and `import_judgements`."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from annotation.importing.columns import ColumnMap, TableSample, read_sample
from annotation.importing.file_formats.decoding import resolve_path
from annotation.importing.problems import ImportFileError
from annotation.management.base import ConcordCommand, UsageError
from annotation.models import Project


class ImportCommand(ConcordCommand):
    label: str
    filename: str  # the file to read if a folder is given
    summary: str  # a format string with the counts as named placeholders

    def add_arguments(self, parser: CommandParser) -> None:
        self.add_project(parser)
        parser.add_argument("place", metavar="FILE_OR_FOLDER", help=f"a file, or a folder with {self.filename}")
        parser.add_argument(
            "--study", metavar="NAME", help="import only the rows of this study, if the file has a study column"
        )
        parser.add_argument("--check", action="store_true", help="print what would change and write nothing")

    def handle(self, *args: Any, **options: Any) -> None:
        project = self.find_editable_project(options["project"])
        try:
            path = resolve_path(options["place"], self.filename)
        except ImportFileError as error:
            raise UsageError(error.format_text()) from None
        self.write_message(f"Reading {path.name} …")
        try:
            sample = read_sample(path)
            columns = replace(self.guess(sample), study=options["study"])
            counts, notes = self.import_file(project, path, columns, check=options["check"])
        except ImportFileError as error:
            raise CommandError(error.format_text()) from None
        except OSError as error:
            raise CommandError(f"The file cannot be read: {error.strerror}. Nothing was imported.") from None
        for note in [*sample.notes, *notes]:
            self.write_message(note)
        text = self.summary.format(**counts) + (" Nothing was written: this was a check." if options["check"] else "")
        result = {"project": project.slug, "file": str(path), "written": not options["check"], **counts}
        self.write_result(result, f"{self.label} of “{project}”: {text}")

    def guess(self, sample: TableSample) -> ColumnMap:
        """Guess how each column is used."""
        raise NotImplementedError

    def import_file(
        self, project: Project, path: Path, columns: ColumnMap, *, check: bool
    ) -> tuple[dict[str, int], list[str]]:
        """Import the file, or only check it; return the change counts and the warnings."""
        raise NotImplementedError

    def report_valid(self, rows: int) -> None:
        self.write_message(f"{rows:,} rows are valid …")
