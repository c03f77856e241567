"""Remove the second factor from an account whose owner has lost their phone and recovery codes."""

from typing import Any

from django.core.management.base import CommandError, CommandParser

from annotation.management.base import ConcordCommand
from annotation.models import User
from annotation.services import two_factor


class Command(ConcordCommand):
    help = (
        "Switches two-factor log-in off for an account, so that its password suffices. Make sure that the person who "
        "asks for it is the owner of the account."
    )
    examples = ("reset_two_factor ada", "reset_two_factor ada --json")

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", metavar="NAME", help="the username")

    def handle(self, *args: Any, **options: Any) -> None:
        user = User.objects.filter(username=options["name"]).first()
        if user is None:
            raise CommandError(f"There is no account “{options['name']}”. Nothing was changed.")
        removed = two_factor.disable(user, two_factor.RESET)
        text = "Two-factor log-in is off for" if removed else "There was no second factor to remove for"
        self.write_result({"name": user.username, "removed": removed}, f"{text} {user.username}.")
