"""What `import_items` and `import_judgements` share: the project, the place, plain words, exit code 1 on refusal."""

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from annotation.importing.folders import table_in
from annotation.importing.problems import ImportRefused
from annotation.models import Project


class ImportCommand(BaseCommand):
    table: str  # the name of the file in a folder

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("project", metavar="PROJECT_SLUG")
        parser.add_argument("place", metavar="FILE_OR_FOLDER")

    def handle(self, *args: Any, **options: Any) -> None:
        project = Project.objects.filter(slug=options["project"]).first()
        if project is None:
            raise CommandError(f"There is no project “{options['project']}”. Nothing was imported.")
        try:
            path = table_in(options["place"], self.table)
            self.stdout.write(f"Reading {path.name} …")
            self.stdout.write(self.style.SUCCESS(self.take_in(project, path)))
        except ImportRefused as refused:
            raise CommandError(refused.in_words()) from None
        except OSError as error:
            raise CommandError(f"The file cannot be read: {error.strerror}. Nothing was imported.") from None

    def take_in(self, project: Project, path: Path) -> str:
        """Imports the file and says what changed."""
        raise NotImplementedError
