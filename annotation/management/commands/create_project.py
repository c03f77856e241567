"""A draft project from the command line."""

from typing import Any

from django.core.management.base import CommandParser

from annotation import services
from annotation.forms.by_name import Unusable, checked_settings
from annotation.models import Project, User
from annotation.terminal import TerminalCommand, WrongCall, settings_given


class Command(TerminalCommand):
    help = (
        "Creates a draft project with its owner. Next: import_items, then change_project --state open. Every setting "
        "of the settings page can be given with --set; change_project lists their names."
    )
    examples = (
        'create_project night-trains "Night trains" --owner ada',
        'create_project pets "Pets" --owner ada --set redundancy=5 --set ties_allowed=no --json',
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("project", metavar="PROJECT", help="the short name its links shall have")
        parser.add_argument("title", metavar="TITLE", help="what people read above it")
        parser.add_argument("--owner", metavar="NAME", required=True, help="log-in name of an existing account")
        parser.add_argument("--question", help="what is asked about each pair")
        self.add_settings(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        owner = User.objects.filter(username=options["owner"]).first()
        if owner is None:
            raise WrongCall(f"There is no account {options['owner']}. Create one first: manage.py create_owner NAME")
        asked = {"question": options["question"]} if options["question"] is not None else {}
        given = {**settings_given(options["set"]), **asked, "slug": options["project"], "title": options["title"]}
        try:
            fields = checked_settings(Project(), given)
        except Unusable as refusal:
            raise WrongCall(f"No project was created. {refusal}") from None
        project = services.create_project(owner=owner, **fields)
        facts = {"project": project.slug, "title": project.title, "state": project.state, "owner": owner.username}
        facts |= {"page": project.get_absolute_url(), "judging_page": project.get_judging_url()}
        self.answer(facts, f"Created the draft {project.slug}: {project.get_absolute_url()}")
