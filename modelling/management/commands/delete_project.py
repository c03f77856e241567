"""Delete a project with all its data."""

from typing import Any

from django.core.management.base import CommandError, CommandParser

from annotation import services
from annotation.management.base import ConcordCommand, UsageError
from annotation.services.deletion import NotArchived
from modelling.updater.project_removal import remove_one


class Command(ConcordCommand):
    help = (
        "Permanently deletes a project and its items, workers, judgements and versions. One with judgements must "
        "be archived first; --archived does that. Only a record of the deletion stays."
    )
    examples = ("delete_project my-study --yes my-study", "delete_project my-study --yes my-study --archived --json")

    def add_arguments(self, parser: CommandParser) -> None:
        self.add_project(parser)
        parser.add_argument("--yes", metavar="PROJECT", default="", help="the short name again, to confirm")
        parser.add_argument("--archived", action="store_true", help="archive it first if needed")

    def handle(self, *args: Any, **options: Any) -> None:
        project = self.find_project(options["project"])
        if options["yes"] != project.slug:
            raise UsageError(f"Deleting cannot be undone. Confirm it with --yes {project.slug}. Nothing was deleted.")
        if options["archived"]:
            services.archive_project(project=project, user=None, archived=True)
        try:
            tombstone = services.delete_project(project=project, user=None)
        except NotArchived as error:
            raise CommandError(f"{error.title} {error.detail}") from None
        while remove_one():
            pass
        result = {"project": project.slug, "events": tombstone.events, "last_hash": tombstone.last_hash}
        self.write_result(result, f"{project.slug} was deleted, with {tombstone.events} events.")
