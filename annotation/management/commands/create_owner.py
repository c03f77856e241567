"""Create an administrator. There is no default account."""

import getpass
import os
import secrets
import warnings
from typing import Any

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.management.base import CommandError, CommandParser

from annotation.management.base import ConcordCommand, UsageError
from annotation.models import User

PASSWORD_VARIABLE = "CONCORD_OWNER_PASSWORD"  # noqa: S105


class Command(ConcordCommand):
    help = (
        "Creates an administrator: an account that sees and may change every project. The password is read from the "
        f"terminal or the variable {PASSWORD_VARIABLE}, or generated and printed once."
    )
    examples = ("create_owner ada", "create_owner ada --email ada@example.org --generate --json")

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", metavar="NAME", help="the username")
        parser.add_argument("--email", default="", help="the address for email about the account")
        parser.add_argument("--generate", action="store_true", help="generate a password and print it once")

    def handle(self, *args: Any, **options: Any) -> None:
        owner = User(username=options["name"], email=options["email"], is_staff=True, is_superuser=True)
        check_name(owner)
        password = secrets.token_urlsafe(18) if options["generate"] else read_password()
        check_password(password, owner)
        owner.set_password(password)
        owner.save(force_insert=True)
        result, text = {"name": owner.username}, f"{owner.username} can now log in and administer everything."
        if options["generate"]:
            result, text = {**result, "password": password}, f"{text}\nPassword (shown only once): {password}"
        self.write_result(result, text)


def check_name(owner: User) -> None:
    try:
        owner.full_clean(exclude=["password"])
    except ValidationError as error:
        raise UsageError("No account was created. " + " ".join(error.messages)) from None


def read_password() -> str:
    """Read the password from the environment variable if set; otherwise prompt for it twice."""
    if password := os.environ.get(PASSWORD_VARIABLE):
        return password
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", getpass.GetPassWarning)  # the terminal cannot hide the password
            password, repeated = getpass.getpass("Password: "), getpass.getpass("Repeat the password: ")
    except (EOFError, getpass.GetPassWarning):
        advice = f"Set {PASSWORD_VARIABLE}, or use --generate."
        raise UsageError(f"There is no terminal to read a password from. No account was created. {advice}") from None
    if password != repeated:
        raise CommandError("The two passwords differ. No account was created; run the command again.")
    return password


def check_password(password: str, owner: User) -> None:
    try:
        validate_password(password, owner)
    except ValidationError as error:
        raise UsageError("No account was created. " + " ".join(error.messages)) from None
