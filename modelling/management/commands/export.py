"""Writes the ranking a project's pages show as CSV to a file or to standard output."""

import sys
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from annotation.models import Project
from modelling.exports import ranking_csv
from modelling.versions import shown_snapshot


class Command(BaseCommand):
    help = "Exports the consensus ranking of a project as CSV."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("project", help="the short name in the project's links")
        parser.add_argument("--output", type=Path, help="a file; standard output without it")

    def handle(self, *args: Any, **options: Any) -> None:
        project = Project.objects.filter(slug=options["project"]).first()
        if project is None:
            raise CommandError(f"There is no project called {options['project']!r}. Nothing was written.")
        snapshot = shown_snapshot(project)
        if snapshot is None:
            raise CommandError("This project has no ranking yet: the model has not learned from a judgement.")
        content = ranking_csv(snapshot).content
        if options["output"] is None:
            sys.stdout.buffer.write(content)
            return
        write(options["output"], content)
        self.stderr.write(f"Version {snapshot.number} of {project.title} is in {options['output']}.")


def write(path: Path, content: bytes) -> None:
    try:
        path.write_bytes(content)
    except OSError as error:
        raise CommandError(f"The ranking could not be written to {path}: {error.strerror}.") from None
