"""The settings and the state of a project from the command line."""

from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db import transaction

from annotation import services
from annotation.forms.by_name import Unusable, checked_settings, settings_by_name
from annotation.forms.projects import StateForm
from annotation.models import Project
from annotation.terminal import TerminalCommand, WrongCall, settings_given


class Command(TerminalCommand):
    help = (
        "Shows a project's settings, changes them, and opens, pauses or closes the study. All that is asked for is "
        "done, or nothing. Every change is in the audit."
    )
    examples = (
        "change_project my-study",
        "change_project my-study --state open",
        "change_project my-study --set redundancy=5 --set ties_allowed=no --json",
    )

    def add_arguments(self, parser: CommandParser) -> None:
        self.add_project(parser)
        parser.add_argument("--state", choices=Project.State.values[1:], help="what the study shall be")
        self.add_settings(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        find = self.find_changeable if options["set"] or options["state"] else self.find_project
        project = find(options["project"])
        with transaction.atomic():
            self.change_settings(project, settings_given(options["set"]))
            if options["state"] not in (None, project.state):
                self.change_state(project, options["state"])
        settings, given = settings_by_name(project), settings_given(options["set"])
        shown = given or ({} if options["state"] else settings)
        lines = [f"{project.title} is {project.state}.", *(f"  {name}={getattr(project, name)}" for name in shown)]
        facts = {"project": project.slug, "title": project.title, "state": project.state, "settings": settings}
        self.answer(facts, "\n".join(lines))

    def change_settings(self, project: Project, given: dict[str, str]) -> None:
        try:
            changes = checked_settings(project, given)
        except Unusable as refusal:
            raise WrongCall(f"Nothing was changed. {refusal}") from None
        services.change_project(project=project, user=None, changes=changes)

    def change_state(self, project: Project, state: str) -> None:
        form = StateForm(project, {"state": state})
        if not form.is_valid():
            raise CommandError(f"Nothing was changed. {' '.join(map(str, form.errors['state']))}")
        services.change_project(project=project, user=None, changes=form.cleaned_data)
