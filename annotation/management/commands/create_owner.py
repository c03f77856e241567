"""The first account of an install, and any further administrator. There is never a default one."""

import getpass
import os
import secrets
from typing import Any

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser

from annotation.models import User

PASSWORD_VARIABLE = "CONCORD_OWNER_PASSWORD"  # noqa: S105


class Command(BaseCommand):
    help = f"Create an administrator. The password is asked for, read from {PASSWORD_VARIABLE}, or generated."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="the log-in name")
        parser.add_argument("--email", default="")
        parser.add_argument("--generate", action="store_true", help="make a password and print it once")

    def handle(self, *args: Any, **options: Any) -> None:
        owner = User(username=options["name"], email=options["email"], is_staff=True, is_superuser=True)
        refuse_a_bad_name(owner)
        password = secrets.token_urlsafe(18) if options["generate"] else asked_password()
        refuse_a_weak_password(password, owner)
        owner.set_password(password)
        owner.save(force_insert=True)
        self.stdout.write(f"{owner.username} can now log in and administer everything.")
        if options["generate"]:
            self.stdout.write(f"Password, shown this once: {password}")


def refuse_a_bad_name(owner: User) -> None:
    try:
        owner.full_clean(exclude=["password"])
    except ValidationError as error:
        raise CommandError("No account was created. " + " ".join(error.messages)) from None


def asked_password() -> str:
    """From the environment if it is there, else typed twice."""
    if given := os.environ.get(PASSWORD_VARIABLE):
        return given
    password = getpass.getpass("Password: ")
    if password != getpass.getpass("Once more: "):
        raise CommandError("The two passwords differ. No account was created; please run the command again.")
    return password


def refuse_a_weak_password(password: str, owner: User) -> None:
    try:
        validate_password(password, owner)
    except ValidationError as error:
        raise CommandError("No account was created. " + " ".join(error.messages)) from None
