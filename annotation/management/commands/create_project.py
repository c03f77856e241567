"""A draft project from the command line."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from annotation import services
from annotation.forms.projects import ProjectForm
from annotation.models import Project, User


class Command(BaseCommand):
    help = "Create a draft project with its owner. Settings are changed in the browser afterwards."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("slug", help="the short name in links")
        parser.add_argument("title")
        parser.add_argument("--owner", required=True, help="log-in name of an existing account")
        parser.add_argument("--question", default=Project._meta.get_field("question").default)

    def handle(self, *args: Any, **options: Any) -> None:
        owner = User.objects.filter(username=options["owner"]).first()
        if owner is None:
            raise CommandError(f"There is no account {options['owner']}. Create one first: manage.py create_owner NAME")
        fields = {name: options[name] for name in ("slug", "title", "question")}
        refuse_what_the_form_refuses(fields)
        project = services.create_project(owner=owner, **fields)
        self.stdout.write(f"Created the draft {project.slug}: {project.get_absolute_url()}")


def refuse_what_the_form_refuses(fields: dict[str, str]) -> None:
    """The browser's rules for these fields hold here as well."""
    errors = ProjectForm(fields).errors
    messages = [f"{name}: {' '.join(map(str, errors[name]))}" for name in fields if name in errors]
    if messages:
        raise CommandError("No project was created. " + " ".join(messages))
