"""Checks that nothing was lost, changed or damaged. Exit code 0 if all is well, 1 if not."""

from collections.abc import Iterator
from typing import Any

from django.core.management.base import CommandParser
from threadpoolctl import threadpool_limits

from annotation import verification as events
from annotation.models import Project
from annotation.terminal import TerminalCommand, WrongCall
from modelling import verification as snapshots


class Command(TerminalCommand):
    help = (
        "Checks that nothing was lost, changed or damaged: sequences, hash chains, stray rows, triggers and snapshots "
        "of every project. Changes nothing. Exit code 0 if all is well, 1 if something is not."
    )
    examples = ("verify", "verify my-study --rebuild 3 --json")

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("project", metavar="PROJECT", nargs="*", help="short names; every project without them")
        parser.add_argument(
            "--rebuild", type=int, default=0, metavar="N", help="also learn the newest N versions again and compare"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["rebuild"] < 0:
            raise WrongCall("How many versions to learn again must be 0 or more. Nothing was checked.")
        named = [self.find_project(slug) for slug in dict.fromkeys(options["project"])]
        projects = named or list(Project.objects.order_by("pk"))
        problems = [*events.missing_guards(), *events.open_graves(), *self.problems_of(projects)]
        for project in projects if options["rebuild"] else ():
            problems += self.rebuild(project, options["rebuild"])
        facts = {"projects": [project.slug for project in projects], "problems": problems}
        if problems:
            end = f"{len(problems)} problem(s) found. Nothing was changed; restore the rows from a backup."
            self.answer_no(facts, "\n".join([*(self.style.ERROR(problem) for problem in problems), end]))
        self.answer(facts, self.style.SUCCESS(f"All is well in {len(projects)} project(s)."))

    def problems_of(self, projects: list[Project]) -> Iterator[str]:
        for done, project in enumerate(projects):
            self.progress("checking", done / len(projects), f" {project.slug}")
            for part in (events, snapshots):
                for problem in part.problems_of(project):
                    yield f"{project.slug}: {problem}"

    def rebuild(self, project: Project, newest: int) -> list[str]:
        """What is wrong with those of the newest versions that do not come out the same again."""
        found = []
        with threadpool_limits(1):  # sums in one order: equal to the last bit
            for snapshot, problem in snapshots.rebuild(project, newest):
                self.meter.clear()
                said = f"{project.slug}: version {snapshot.number} ({snapshot.kind}, {snapshot.checksum[:12]})"
                self.say(f"{said}: {problem or 'the same again.'}")
                found += [f"{said}: {problem}"] if problem else []
        return found
