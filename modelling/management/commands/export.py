"""Writes a table of a project to a file or to standard output."""

import sys
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from annotation.models import Project
from modelling import exporting


class Command(BaseCommand):
    help = "Exports the ranking, or another table, of a project."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("project", help="the short name in the project's links")
        parser.add_argument("what", nargs="?", default="ranking", choices=list(exporting.TABLES), help="which table")
        parser.add_argument("--format", default="csv", choices=list(exporting.FORMATS))
        parser.add_argument("--as-of", type=int, metavar="SEQUENCE", help="the log up to this event; all without it")
        parser.add_argument("--model-version", type=int, metavar="NUMBER", help="the shown version without it")
        parser.add_argument("--output", type=Path, help="a file; standard output without it")

    def handle(self, *args: Any, **options: Any) -> None:
        project = Project.objects.filter(slug=options["project"]).first()
        if project is None:
            raise CommandError(f"There is no project called {options['project']!r}. Nothing was written.")
        try:
            table = exporting.table(project, options["what"], options["as_of"], options["model_version"])
            self.write(table, **options)
        except exporting.NoExport as refusal:
            raise CommandError(f"{refusal} Nothing was written.") from None

    def write(self, table: exporting.Table, *, format: str, output: Path | None, **options: Any) -> None:
        if output is None:
            exporting.write(table, format, sys.stdout.buffer)
            return
        try:
            with output.open("wb") as file:
                exporting.write(table, format, file)
        except OSError as error:
            raise CommandError(f"The {table.name} could not be written to {output}: {error.strerror}.") from None
        version = "no version of the model" if table.version is None else f"version {table.version}"
        self.stderr.write(f"{table.name}, {version}, as of event {table.as_of_seq}, is in {output}.")
