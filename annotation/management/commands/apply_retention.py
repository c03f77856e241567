"""Erase workers' data in projects whose retention period has passed. The updater does the same once an hour."""

from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone

from annotation.management.base import ConcordCommand
from annotation.services.privacy.retention import delete_old_logins, erase_worker_data, idle_projects


class Command(ConcordCommand):
    help = (
        "Erases workers' platform IDs, questionnaire answers and notes in every project whose retention period has "
        "passed since the last answer, and log-in records older than a month. Judgements stay."
    )
    examples = ("apply_retention --check", "apply_retention --json")

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--check", action="store_true", help="list the projects that are due and erase nothing")

    def handle(self, *args: Any, **options: Any) -> None:
        now = timezone.now()
        due = list(idle_projects(now))
        if options["check"]:
            slugs = [project.slug for project in due]
            text = f"Due: {', '.join(slugs) or 'none'}. Nothing was erased: this was a check."
            self.write_result({"erased": False, "projects": slugs}, text)
            return
        counts = {project.slug: asdict(erase_worker_data(project)) for project in due}
        log_ins = delete_old_logins(now)
        lines = [
            f"{slug}: {each['notes']} notes, {each['details']} imported details, {each['identities']} platform IDs "
            f"and the traits of {each['traits']} workers were erased."
            for slug, each in counts.items()
        ]
        result = {"erased": True, "projects": counts, "log_ins": log_ins}
        self.write_result(result, "\n".join([*lines, f"{log_ins} old log-in records were erased."]))
