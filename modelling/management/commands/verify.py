"""Checks that nothing was lost, changed or damaged. Exit code 0 if all is well, 1 if not."""

import sys
from collections.abc import Iterator
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from threadpoolctl import threadpool_limits

from annotation import verification as events
from annotation.models import Project
from modelling import verification as snapshots


class Command(BaseCommand):
    help = "Checks sequences, hash chains, stray rows, triggers and snapshots of every project."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("project", nargs="*", help="short names; every project without them")
        parser.add_argument(
            "--rebuild", type=int, default=0, metavar="N", help="also learn the newest N versions again and compare"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["rebuild"] < 0:
            raise CommandError("How many versions to learn again must be 0 or more. Nothing was checked.")
        projects = Project.objects.order_by("pk")
        if options["project"]:
            projects = projects.filter(slug__in=options["project"])
            if unknown := set(options["project"]) - set(projects.values_list("slug", flat=True)):
                raise CommandError(f"There is no project called {', '.join(sorted(unknown))}. Nothing was checked.")
        problems = list(problems_of_all(projects))
        for project in projects if options["rebuild"] else ():
            problems += self.rebuild(project, options["rebuild"])
        for problem in problems:
            self.stdout.write(self.style.ERROR(problem))
        if problems:
            self.stdout.write(f"{len(problems)} problem(s) found. Nothing was changed; restore the rows from a backup.")
            sys.exit(1)
        self.stdout.write(self.style.SUCCESS(f"All is well in {projects.count()} project(s)."))

    def rebuild(self, project: Project, newest: int) -> list[str]:
        """What is wrong with those of the newest versions that do not come out the same again."""
        found = []
        with threadpool_limits(1):  # sums in one order: equal to the last bit
            for snapshot, problem in snapshots.rebuild(project, newest):
                said = f"{project.slug}: version {snapshot.number} ({snapshot.kind}, {snapshot.checksum[:12]})"
                self.stdout.write(f"{said}: {problem or 'the same again.'}")
                found += [f"{said}: {problem}"] if problem else []
        return found


def problems_of_all(projects: Any) -> Iterator[str]:
    yield from events.missing_guards()
    for project in projects:
        for part in (events, snapshots):
            for problem in part.problems_of(project):
                yield f"{project.slug}: {problem}"
