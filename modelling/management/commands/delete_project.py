"""Deletes a project with everything in it."""

from typing import Any

from django.core.management.base import CommandError, CommandParser

from annotation import services
from annotation.services.deletion import NotArchivedYet
from annotation.terminal import TerminalCommand, WrongCall
from modelling.removal import remove_one


class Command(TerminalCommand):
    help = (
        "Deletes a project with its items, workers, judgements and versions, for ever. A project with judgements must "
        "be archived first, or be given --archived. One line in the server's records stays."
    )
    examples = ("delete_project my-study --yes my-study", "delete_project my-study --yes my-study --archived --json")

    def add_arguments(self, parser: CommandParser) -> None:
        self.add_project(parser)
        parser.add_argument("--yes", metavar="PROJECT", default="", help="the short name again, because it is meant")
        parser.add_argument("--archived", action="store_true", help="archive it first, if it is not archived yet")

    def handle(self, *args: Any, **options: Any) -> None:
        project = self.find_project(options["project"])
        if options["yes"] != project.slug:
            raise WrongCall(f"Deleting cannot be undone: say --yes {project.slug} as well. Nothing was deleted.")
        if options["archived"]:
            services.archive_project(project=project, user=None, archived=True)
        try:
            tombstone = services.delete_project(project=project, user=None)
        except NotArchivedYet as refusal:
            raise CommandError(f"{refusal.title} {refusal.detail}") from None
        while remove_one():
            pass
        facts = {"project": project.slug, "events": tombstone.events, "last_hash": tombstone.last_hash}
        self.answer(facts, f"{project.slug} is deleted, with {tombstone.events} events.")
