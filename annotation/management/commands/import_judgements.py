"""Past judgements from a CSV file, or from judgements.csv in a folder."""

from pathlib import Path

from annotation.importing.commands import ImportCommand
from annotation.importing.judgements import import_judgements, plan_judgements, read_judgements
from annotation.models import Project


class Command(ImportCommand):
    help = (
        "Imports judgements that people gave elsewhere, from a CSV file with the columns worker, a, b (keys of items) "
        "and choice (a, b or tie). All rows or none. The same file again adds nothing."
    )
    examples = (
        "import_judgements my-study judgements.csv",
        "import_judgements my-study judgements.csv --check --json",
    )
    what = "Judgements"
    table = "judgements.csv"
    words = "{added:,} added ({ties:,} ties, {workers:,} new workers), {unchanged:,} unchanged."

    def take_in(self, project: Project, path: Path, *, check: bool) -> dict[str, int]:
        rows = read_judgements(path)
        self.say_sound(len(rows))
        plan = plan_judgements(project, rows) if check else import_judgements(project=project, user=None, rows=rows)
        return plan.counts
