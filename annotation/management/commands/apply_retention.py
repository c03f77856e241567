"""Erases what projects want erased after a time without answers. The updater does the same once an hour."""

from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone

from annotation.services.retention import erase_people, forget_log_ins, idle_projects
from annotation.terminal import TerminalCommand


class Command(TerminalCommand):
    help = (
        "Erases workers' platform ids, answers to the questionnaire and notes in every project whose settings ask for "
        "it and that has had no answer for so many days; and records of log-ins older than a month. Judgements stay."
    )
    examples = ("apply_retention --check", "apply_retention --json")

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--check", action="store_true", help="name the projects that are due and erase nothing")

    def handle(self, *args: Any, **options: Any) -> None:
        now = timezone.now()
        due = list(idle_projects(now))
        if options["check"]:
            slugs = [project.slug for project in due]
            words = f"Past their time: {', '.join(slugs) or 'none'}. Nothing was erased: this was a check."
            self.answer({"erased": False, "projects": slugs}, words)
            return
        counts = {project.slug: asdict(erase_people(project)) for project in due}
        log_ins = forget_log_ins(now)
        lines = [
            f"{slug}: {each['notes']} notes, {each['identities']} platform ids, traits of {each['traits']} workers."
            for slug, each in counts.items()
        ]
        facts = {"erased": True, "projects": counts, "log_ins": log_ins}
        self.answer(facts, "\n".join([*lines, f"{log_ins} old records of log-ins were erased."]))
