"""What every command of manage.py shares: how it is asked, how it answers, how it shows that it is at work.

Exit codes: 0 it is done, or the answer is yes; 1 it could not be done, or the answer is no; 2 the call was wrong.
With --json there is one JSON object on standard output and nothing else; whatever else is said goes to standard error.
"""

import json
import logging
import os
import sys
import textwrap
import time
from argparse import SUPPRESS, RawDescriptionHelpFormatter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from difflib import get_close_matches
from typing import Any, NoReturn, TextIO

from django.core.management.base import BaseCommand, CommandError, CommandParser, DjangoHelpFormatter
from django.db import OperationalError, ProgrammingError

from annotation.models import Project
from annotation.services.deletion import Archived

NO, WRONG_CALL, INTERRUPTED, NOBODY_READS = 1, 2, 130, 141
CODES = "Exit codes: 0 done, 1 could not be done or the answer is no, 2 wrong call. More: docs/commands.md"
WIDTH, BAR = 100, 24
PLAIN_SECONDS = 10.0  # between two lines of progress where there is no terminal; short work says nothing there
NOT_MIGRATED = ("no such table", "no such column", "does not exist")


class WrongCall(CommandError):
    """What was asked for is not there or cannot be meant; nothing was done."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"returncode": WRONG_CALL, **kwargs})


class Meter:
    """How far long work has come: on a terminal one line that is written over, elsewhere a line every ten seconds."""

    def __init__(self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self.stream, self.clock = stream or sys.stderr, clock
        self.last = clock()

    def __call__(self, what: str, share: float, more: str = "") -> None:
        """`what` is being done, and this share of it is; `more` is a detail for who looks on."""
        if self.stream.isatty():
            filled = round(BAR * share)
            self._write(f"\r\033[K{what} [{'#' * filled}{'.' * (BAR - filled)}] {share:.0%}{more}")
        elif self.clock() - self.last >= PLAIN_SECONDS:
            self.last = self.clock()
            self._write(f"{what} {share:.0%}{more}\n")

    def clear(self) -> None:
        """The terminal's line is empty again."""
        if self.stream.isatty():
            self._write("\r\033[K")

    def _write(self, text: str) -> None:
        self.stream.write(text)
        self.stream.flush()


class TeachingFormatter(DjangoHelpFormatter, RawDescriptionHelpFormatter):
    """Examples keep their lines."""


class TeachingParser(CommandParser):
    """Takes words and options in any order; what it cannot understand is an object too, where JSON was asked for."""

    asked: Sequence[str] = ()

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        self.asked = args or ()
        return self.parse_intermixed_args(args, namespace)

    def error(self, message: str) -> Any:
        if self.called_from_command_line and "--json" in self.asked:
            words = f"{message[:1].upper()}{message[1:]}. Nothing was done."
            sys.stdout.write(refusal(words, WRONG_CALL) + "\n")
        super().error(message)


def refusal(words: str, code: int) -> str:
    """The one JSON object of a command that could not be carried out."""
    return json.dumps({"error": words, "exit_code": code}, ensure_ascii=False)


class TerminalCommand(BaseCommand):
    """A command that teaches by --help, answers as words or as JSON, and whose exit code can be relied on."""

    examples: tuple[str, ...]  # as typed after `manage.py`; shown by --help
    # Django's own options work, but are no part of the lesson.
    suppressed_base_arguments = {
        "--version", "--verbosity", "--settings", "--pythonpath", "--traceback", "--no-color", "--force-color",
    }  # fmt: skip
    as_json = False

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        shown = "\n".join(f"  manage.py {example}" for example in self.examples)
        kwargs |= {"formatter_class": TeachingFormatter, "epilog": f"examples:\n{shown}\n\n{CODES}"}
        parser = super().create_parser(prog_name, subcommand, **kwargs)
        parser.__class__ = TeachingParser  # Django names the class of its parsers itself
        parser.description = textwrap.fill(self.help, WIDTH)
        for action in parser._actions:
            if "--skip-checks" in action.option_strings:
                action.help = SUPPRESS
        parser.add_argument("--json", action="store_true", help="answer with one JSON object on standard output")
        return parser

    def add_project(self, parser: CommandParser) -> None:
        parser.add_argument("project", metavar="PROJECT", help="the short name in the project's links")

    def add_settings(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--set", metavar="NAME=VALUE", action="append", default=[], help="a setting; may be repeated"
        )

    def find_project(self, slug: str) -> Project:
        """The project of this short name; WrongCall, with the name that was perhaps meant, where there is none."""
        project = Project.objects.filter(slug=slug).first()
        if project is None:
            alike = get_close_matches(slug, Project.objects.values_list("slug", flat=True), n=1)
            meant = f" Is {alike[0]} meant?" if alike else ""
            raise WrongCall(f"There is no project called {slug}. Nothing was done.{meant}")
        return project

    def goes_on(self, **options: Any) -> bool:
        """Whether it runs until it is stopped, so that its log is how it answers."""
        return False

    def find_changeable(self, slug: str) -> Project:
        """The project of this short name, if it was not archived."""
        project = self.find_project(slug)
        if project.archived_at:
            raise CommandError(f"{Archived.title} Nothing was changed. {Archived.detail}")
        return project

    def execute(self, *args: Any, **options: Any) -> str | None:
        """Runs the command; what goes wrong is said in words, and as JSON where that was asked for."""
        self.as_json, self.meter = options["json"], Meter()
        try:
            with nullcontext() if self.goes_on(**options) else quiet_log():
                return self._watched(*args, **options)
        except CommandError as refusal:
            if options["traceback"] or not getattr(self, "_called_from_command_line", False):
                raise
            self._end(str(refusal), refusal.returncode)
        except KeyboardInterrupt:
            self._end("Stopped. What was stored before is kept.", INTERRUPTED)
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # so that closing it does not complain
            sys.exit(NOBODY_READS)

    def _watched(self, *args: Any, **options: Any) -> str | None:
        try:
            return super().execute(*args, **options)
        except (OperationalError, ProgrammingError) as error:
            raise CommandError(words_for_database(error)) from error
        finally:
            self.meter.clear()

    def _end(self, words: str, code: int) -> NoReturn:
        if self.as_json:
            self.stdout.write(refusal(words, code))
        self.stderr.write(words)
        sys.exit(code)

    def say(self, words: str) -> None:
        """A word to whoever looks on: beside the answer, never in the way of its JSON."""
        stream = self.stderr if self.as_json else self.stdout
        stream.write(words, lambda plain: plain)
        stream.flush()

    def progress(self, what: str, share: float, more: str = "") -> None:
        self.meter(what, share, more)

    def answer(self, facts: Mapping[str, Any], words: str) -> None:
        """The answer: these facts as one JSON object, or these words."""
        self.meter.clear()
        self.stdout.write(json.dumps(facts, ensure_ascii=False) if self.as_json else words)

    def answer_no(self, facts: Mapping[str, Any], words: str) -> NoReturn:
        """The answer, which is no."""
        self.answer(facts, words)
        sys.exit(NO)


@contextmanager
def quiet_log() -> Iterator[None]:
    """What an answer says need not be logged beside it; troubles are, and with LOG_LEVEL=DEBUG everything."""
    log, root = logging.getLogger("concord"), logging.getLogger()
    before = log.level
    log.setLevel(logging.WARNING if root.level == logging.INFO else before)
    try:
        yield
    finally:
        log.setLevel(before)


def settings_given(texts: list[str]) -> dict[str, str]:
    """The value under each name; WrongCall for what is not NAME=VALUE."""
    for text in texts:
        if "=" not in text:
            raise WrongCall(f"--set wants NAME=VALUE, not {text}. Nothing was changed.")
    return dict(text.split("=", 1) for text in texts)


def words_for_database(error: Exception) -> str:
    """Why the database cannot be used, and what helps."""
    why = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    helps = "Is it running, and are its address and password right?"
    if any(sign in why for sign in NOT_MIGRATED):
        helps = "Its tables are not there, or are those of another version: run `manage.py migrate`."
    elif "locked" in why:
        helps = "Another process has kept it busy for long: try again when that is done."
    return f"The database could not be used ({why}). {helps}"
