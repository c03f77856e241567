"""Show or change the settings and the state of a project."""

from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db import transaction

from annotation import services
from annotation.forms.project_options import InvalidOption, clean_options, get_options
from annotation.forms.projects import StateForm
from annotation.management.base import ConcordCommand, UsageError, parse_settings
from annotation.models import Project


class Command(ConcordCommand):
    help = (
        "Shows a project's settings, changes them, and opens, pauses or closes the study. Either all changes are made "
        "or none. Every change is audited."
    )
    examples = (
        "change_project my-study",
        "change_project my-study --state open",
        "change_project my-study --set redundancy=5 --set ties_allowed=no --json",
    )

    def add_arguments(self, parser: CommandParser) -> None:
        self.add_project(parser)
        parser.add_argument("--state", choices=Project.State.values[1:], help="the new state of the study")
        self.add_settings(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        find = self.find_editable_project if options["set"] or options["state"] else self.find_project
        project, new_settings = find(options["project"]), parse_settings(options["set"])
        with transaction.atomic():
            self.change_settings(project, new_settings)
            if options["state"] not in (None, project.state):
                self.change_state(project, options["state"])
        settings = get_options(project)
        shown = new_settings or ({} if options["state"] else settings)
        lines = [f"{project.title} is {project.state}.", *(f"  {name}={getattr(project, name)}" for name in shown)]
        result = {"project": project.slug, "title": project.title, "state": project.state, "settings": settings}
        self.write_result(result, "\n".join(lines))

    def change_settings(self, project: Project, new_settings: dict[str, str]) -> None:
        try:
            changes = clean_options(project, new_settings)
        except InvalidOption as error:
            raise UsageError(f"Nothing was changed. {error}") from None
        services.change_project(project=project, user=None, changes=changes)

    def change_state(self, project: Project, state: str) -> None:
        form = StateForm(project, {"state": state})
        if not form.is_valid():
            raise CommandError(f"Nothing was changed. {' '.join(map(str, form.errors['state']))}")
        services.change_project(project=project, user=None, changes=form.cleaned_data)
