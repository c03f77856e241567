"""Import items from a CSV, TSV, JSON or Excel file, or from items.csv in a folder."""

from pathlib import Path

from annotation.importing.columns import ColumnMap, TableSample
from annotation.importing.item_files import guess_item_columns, read_items
from annotation.importing.items import import_items, plan_items
from annotation.management.importing import ImportCommand
from annotation.models import Project


class Command(ImportCommand):
    help = (
        "Imports the texts to compare from a CSV, TSV, JSON or Excel file with the columns key and text. Optional: "
        "group (pairs are formed within a group), feature:… (numbers) and further columns (notes). Either all rows are "
        "imported or none. Importing the same file again changes nothing; a changed text becomes a new revision."
    )
    examples = ("import_items my-study items.csv", "import_items my-study items.csv --check --json")
    label = "Items"
    filename = "items.csv"
    summary = "{added:,} added, {corrected:,} corrected, {updated:,} changed, {unchanged:,} unchanged."

    def guess(self, sample: TableSample) -> ColumnMap:
        return guess_item_columns(sample)

    def import_file(
        self, project: Project, path: Path, columns: ColumnMap, *, check: bool
    ) -> tuple[dict[str, int], list[str]]:
        rows = read_items(path, columns)
        self.report_valid(len(rows))
        plan = plan_items(project, rows) if check else import_items(project=project, user=None, rows=rows)
        return plan.counts, plan.warnings
