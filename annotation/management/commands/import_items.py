"""Items from a CSV file, or from items.csv in a folder."""

from pathlib import Path

from annotation.importing.commands import ImportCommand
from annotation.importing.items import import_items, read_items
from annotation.models import Project


class Command(ImportCommand):
    help = "Imports items (key, text, group, metadata, feature:…) from a CSV file or from items.csv in a folder."
    table = "items.csv"

    def take_in(self, project: Project, path: Path) -> str:
        rows = read_items(path)
        self.stdout.write(f"{len(rows):,} rows are in order; writing …")
        counts = import_items(project=project, user=None, rows=rows).counts
        words = "{added:,} added, {corrected:,} corrected, {updated:,} with other details, {unchanged:,} unchanged."
        return f"Items of “{project}”: " + words.format(**counts)
