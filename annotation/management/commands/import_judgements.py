"""Import judgements from a CSV, TSV, JSON or Excel file, or from judgements.csv in a folder."""

from pathlib import Path

from annotation.importing.background import import_judgements
from annotation.importing.columns import ColumnMap, TableSample
from annotation.importing.judgement_columns import guess_judgement_columns
from annotation.importing.judgement_files import read_judgements
from annotation.importing.judgements import plan_judgements
from annotation.management.importing import ImportCommand
from annotation.models import Project


class Command(ImportCommand):
    help = (
        "Imports judgements from elsewhere, from a CSV, TSV, JSON or Excel file. The columns are recognised by common "
        "names: worker, a, b (item keys) and choice (a, b or tie), or left, right and winner, or winner and loser. "
        "Either all rows are imported or none. Importing the same file again adds nothing."
    )
    examples = (
        "import_judgements my-study judgements.csv",
        "import_judgements my-study judgements.csv --check --json",
        "import_judgements my-study judgements.xlsx --study nuisance",
    )
    label = "Judgements"
    filename = "judgements.csv"
    summary = "{added:,} added ({ties:,} ties, {workers:,} new workers), {unchanged:,} unchanged."

    def guess(self, sample: TableSample) -> ColumnMap:
        return guess_judgement_columns(sample)

    def import_file(
        self, project: Project, path: Path, columns: ColumnMap, *, check: bool
    ) -> tuple[dict[str, int], list[str]]:
        rows = read_judgements(path, columns)
        self.report_valid(len(rows))
        if check:
            plan = plan_judgements(project, rows)
        else:
            plan = import_judgements(project=project, user=None, rows=rows, wait=True)
        return plan.counts, plan.warnings
