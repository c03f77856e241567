"""The first account of an install, and any further administrator. There is never a default one."""

import getpass
import os
import secrets
import warnings
from typing import Any

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.management.base import CommandError, CommandParser

from annotation.models import User
from annotation.terminal import TerminalCommand, WrongCall

PASSWORD_VARIABLE = "CONCORD_OWNER_PASSWORD"  # noqa: S105


class Command(TerminalCommand):
    help = (
        "Creates an administrator: an account that sees and may change every project. The password is asked for, "
        f"read from the variable {PASSWORD_VARIABLE}, or generated and shown once."
    )
    examples = ("create_owner ada", "create_owner ada --email ada@example.org --generate --json")

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", metavar="NAME", help="the log-in name")
        parser.add_argument("--email", default="", help="where mail about the account goes")
        parser.add_argument("--generate", action="store_true", help="make a password and print it once")

    def handle(self, *args: Any, **options: Any) -> None:
        owner = User(username=options["name"], email=options["email"], is_staff=True, is_superuser=True)
        refuse_a_bad_name(owner)
        password = secrets.token_urlsafe(18) if options["generate"] else asked_password()
        refuse_a_weak_password(password, owner)
        owner.set_password(password)
        owner.save(force_insert=True)
        facts, words = {"name": owner.username}, f"{owner.username} can now log in and administer everything."
        if options["generate"]:
            facts, words = {**facts, "password": password}, f"{words}\nPassword, shown this once: {password}"
        self.answer(facts, words)


def refuse_a_bad_name(owner: User) -> None:
    try:
        owner.full_clean(exclude=["password"])
    except ValidationError as error:
        raise WrongCall("No account was created. " + " ".join(error.messages)) from None


def asked_password() -> str:
    """From the environment if it is there, else typed twice."""
    if given := os.environ.get(PASSWORD_VARIABLE):
        return given
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", getpass.GetPassWarning)  # there is nowhere to type unseen
            password, again = getpass.getpass("Password: "), getpass.getpass("Once more: ")
    except (EOFError, getpass.GetPassWarning):
        words = f"set {PASSWORD_VARIABLE}, or use --generate"
        raise WrongCall(f"Nobody is here to type a password. No account was created; {words}.") from None
    if password != again:
        raise CommandError("The two passwords differ. No account was created; please run the command again.")
    return password


def refuse_a_weak_password(password: str, owner: User) -> None:
    try:
        validate_password(password, owner)
    except ValidationError as error:
        raise WrongCall("No account was created. " + " ".join(error.messages)) from None
