"""Verify event logs, versions and signed checkpoints. Exit code 0 if no problem was found, otherwise 1."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser
from threadpoolctl import threadpool_limits

from annotation.management.base import ConcordCommand, UsageError
from annotation.models import Project
from annotation.services import verification as events
from annotation.services.verification import checkpoints
from modelling.training import verification as snapshots


class Command(ConcordCommand):
    help = (
        "Checks that no data was lost, changed or damaged: sequences, hash chains, references, triggers and model "
        "versions of every project. Prints a signed checkpoint of each; keep it elsewhere to compare it later. Changes "
        "nothing. Exit code 0 if no problem was found, otherwise 1."
    )
    examples = ("verify", "verify my-study --rebuild 3 --json", "verify --checkpoint saved.json")

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("project", metavar="PROJECT", nargs="*", help="short names (default: all projects)")
        parser.add_argument(
            "--rebuild", type=int, default=0, metavar="N", help="also refit the newest N versions and compare"
        )
        parser.add_argument(
            "--checkpoint",
            metavar="FILE",
            action="append",
            default=[],
            help="also compare saved checkpoints: lines of this command, its JSON, or an archive's manifest",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["rebuild"] < 0:
            raise UsageError("--rebuild must be 0 or more. Nothing was checked.")
        named = [self.find_project(slug) for slug in dict.fromkeys(options["project"])]
        projects = named or list(Project.objects.order_by("pk"))
        saved = [checkpoint for file in options["checkpoint"] for checkpoint in self.read_checkpoints(file)]
        problems = [*events.find_trigger_problems(), *events.find_unprotected_projects(), *self.find_problems(projects)]
        problems += [problem for checkpoint in saved for problem in checkpoints.find_checkpoint_problems(checkpoint)]
        for project in projects if options["rebuild"] else ():
            problems += self.rebuild(project, options["rebuild"])
        result: dict[str, Any] = {"projects": [project.slug for project in projects], "problems": problems}
        if problems:
            advice = f"{len(problems)} problem(s) found. Nothing was changed; restore the rows from a backup."
            self.exit_negative(result, "\n".join([*(self.style.ERROR(problem) for problem in problems), advice]))
        signed = [checkpoint for project in projects if (checkpoint := checkpoints.sign_checkpoint(project))]
        result["checkpoints"] = [checkpoint.as_dict() for checkpoint in signed]
        summary = f"No problems found in {len(projects)} project(s)."
        if saved:
            summary += f" {len(saved)} saved checkpoint(s) match."
        self.write_result(result, "\n".join([self.style.SUCCESS(summary), *(each.as_json() for each in signed)]))

    def read_checkpoints(self, file: str) -> list[checkpoints.Checkpoint]:
        try:
            return checkpoints.read_checkpoints(Path(file).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"Cannot read {file}: {error}. Nothing was checked.") from None
        except checkpoints.InvalidCheckpoint as error:
            raise UsageError(f"{file} cannot be used: {error}. Nothing was checked.") from None

    def find_problems(self, projects: list[Project]) -> Iterator[str]:
        for done, project in enumerate(projects):
            self.show_progress("checking", done / len(projects), f" {project.slug}")
            for part in (events, snapshots):
                for problem in part.find_problems(project):
                    yield f"{project.slug}: {problem}"

    def rebuild(self, project: Project, newest: int) -> list[str]:
        """Rebuild the newest versions; return a message for each that differs or cannot be rebuilt."""
        found = []
        with threadpool_limits(1):  # a fixed order of summation gives bit-identical results
            for snapshot, problem in snapshots.rebuild(project, newest):
                self.meter.clear()
                name = f"{project.slug}: version {snapshot.number} ({snapshot.kind}, {snapshot.checksum[:12]})"
                self.write_message(f"{name}: {problem or 'identical.'}")
                found += [f"{name}: {problem}"] if problem else []
        return found
