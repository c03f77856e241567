"""Items from a CSV file, or from items.csv in a folder."""

from pathlib import Path

from annotation.importing.commands import ImportCommand
from annotation.importing.items import import_items, plan_items, read_items
from annotation.models import Project


class Command(ImportCommand):
    help = (
        "Imports the texts that people will compare, from a CSV file with the columns key and text; group (pairs are "
        "made within a group), further columns (notes) and feature:… (numbers) if you like. All rows or none. The same "
        "file again changes nothing; a changed text becomes a new revision."
    )
    examples = ("import_items my-study items.csv", "import_items my-study items.csv --check --json")
    what = "Items"
    table = "items.csv"
    words = "{added:,} added, {corrected:,} corrected, {updated:,} with other details, {unchanged:,} unchanged."

    def take_in(self, project: Project, path: Path, *, check: bool) -> dict[str, int]:
        rows = read_items(path)
        self.say_sound(len(rows))
        plan = plan_items(project, rows) if check else import_items(project=project, user=None, rows=rows)
        return plan.counts
