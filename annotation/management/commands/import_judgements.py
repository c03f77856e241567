"""Past judgements from a CSV file, or from judgements.csv in a folder."""

from pathlib import Path

from annotation.importing.commands import ImportCommand
from annotation.importing.judgements import import_judgements, read_judgements
from annotation.models import Project


class Command(ImportCommand):
    help = "Imports past judgements (worker, a, b, choice) from a CSV file or from judgements.csv in a folder."
    table = "judgements.csv"

    def take_in(self, project: Project, path: Path) -> str:
        rows = read_judgements(path)
        self.stdout.write(f"{len(rows):,} rows are in order; writing …")
        counts = import_judgements(project=project, user=None, rows=rows).counts
        words = "{added:,} added ({ties:,} ties, {workers:,} new workers), {unchanged:,} unchanged."
        return f"Judgements of “{project}”: " + words.format(**counts)
