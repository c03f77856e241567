"""Create a draft project."""

from typing import Any

from django.core.management.base import CommandParser

from annotation import services
from annotation.forms.project_options import InvalidOption, clean_options
from annotation.management.base import ConcordCommand, UsageError, parse_settings
from annotation.models import Project, User


class Command(ConcordCommand):
    help = (
        "Creates a draft project with its owner. Next: import_items, then change_project --state open. Every setting "
        "of the settings page can be given with --set; change_project lists their names."
    )
    examples = (
        'create_project night-trains "Night trains" --owner ada',
        'create_project pets "Pets" --owner ada --set redundancy=5 --set ties_allowed=no --json',
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("project", metavar="PROJECT", help="the short name for its links")
        parser.add_argument("title", metavar="TITLE", help="the title that people see")
        parser.add_argument("--owner", metavar="NAME", required=True, help="the username of an existing account")
        parser.add_argument("--question", help="the question that is asked about each pair")
        self.add_settings(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        owner = User.objects.filter(username=options["owner"]).first()
        if owner is None:
            raise UsageError(f"There is no account {options['owner']}. Create one first: manage.py create_owner NAME")
        values = {**parse_settings(options["set"]), "slug": options["project"], "title": options["title"]}
        if options["question"] is not None:
            values["question"] = options["question"]
        try:
            fields = clean_options(Project(), values)
        except InvalidOption as error:
            raise UsageError(f"No project was created. {error}") from None
        project = services.create_project(owner=owner, **fields)
        result = {"project": project.slug, "title": project.title, "state": project.state, "owner": owner.username}
        result |= {"page": project.get_absolute_url(), "judging_page": project.get_judging_url()}
        self.write_result(result, f"Created the draft {project.slug}: {project.get_absolute_url()}")
