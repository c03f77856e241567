"""Base class for management commands: arguments, results as text or JSON, progress and exit codes.

Exit codes: 0 success; 1 failure, or a negative result; 2 usage error. With --json, standard output holds exactly one
JSON object, and everything else goes to standard error.
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
from annotation.services.deletion import ProjectArchived

NEGATIVE_RESULT, USAGE_ERROR, INTERRUPTED, BROKEN_PIPE = 1, 2, 130, 141
EXIT_CODES = "Exit codes: 0 success, 1 failure or negative result, 2 usage error. More: docs/commands.md"
HELP_WIDTH, BAR_WIDTH = 100, 24
PROGRESS_SECONDS = 10.0  # seconds between progress lines when not on a terminal; short commands print none there
NOT_MIGRATED = ("no such table", "no such column", "does not exist")


class UsageError(CommandError):
    """An argument is wrong or names something that does not exist; nothing was done."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"returncode": USAGE_ERROR, **kwargs})


class ProgressMeter:
    """Show progress: on a terminal one line that is overwritten, otherwise a line every ten seconds."""

    def __init__(self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self.stream, self.clock = stream or sys.stderr, clock
        self.last = clock()

    def __call__(self, task: str, share: float, detail: str = "") -> None:
        """Show the fraction of the task that is done."""
        if self.stream.isatty():
            filled = round(BAR_WIDTH * share)
            self._write(f"\r\033[K{task} [{'#' * filled}{'.' * (BAR_WIDTH - filled)}] {share:.0%}{detail}")
        elif self.clock() - self.last >= PROGRESS_SECONDS:
            self.last = self.clock()
            self._write(f"{task} {share:.0%}{detail}\n")

    def clear(self) -> None:
        if self.stream.isatty():
            self._write("\r\033[K")

    def _write(self, text: str) -> None:
        self.stream.write(text)
        self.stream.flush()


class HelpFormatter(DjangoHelpFormatter, RawDescriptionHelpFormatter):
    """Keep the line breaks of the examples."""


class ConcordParser(CommandParser):
    """Accept arguments and options in any order; report a usage error as JSON if --json is given."""

    arguments: Sequence[str] = ()

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        self.arguments = args or ()
        return self.parse_intermixed_args(args, namespace)

    def error(self, message: str) -> Any:
        if self.called_from_command_line and "--json" in self.arguments:
            sentence = f"{message[:1].upper()}{message[1:]}. Nothing was done."
            sys.stdout.write(error_json(sentence, USAGE_ERROR) + "\n")
        super().error(message)


def error_json(message: str, code: int) -> str:
    return json.dumps({"error": message, "exit_code": code}, ensure_ascii=False)


class ConcordCommand(BaseCommand):
    """A command with examples in its help, results as text or JSON, and documented exit codes."""

    examples: tuple[str, ...]  # as typed after `manage.py`; shown by --help
    # Django's own options work but are not shown.
    suppressed_base_arguments = {
        "--version", "--verbosity", "--settings", "--pythonpath", "--traceback", "--no-color", "--force-color",
    }  # fmt: skip
    as_json = False

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        examples = "\n".join(f"  manage.py {example}" for example in self.examples)
        kwargs |= {"formatter_class": HelpFormatter, "epilog": f"examples:\n{examples}\n\n{EXIT_CODES}"}
        parser = super().create_parser(prog_name, subcommand, **kwargs)
        parser.__class__ = ConcordParser  # Django does not let a command choose its parser class
        parser.description = textwrap.fill(self.help, HELP_WIDTH)
        for action in parser._actions:
            if "--skip-checks" in action.option_strings:
                action.help = SUPPRESS
        parser.add_argument("--json", action="store_true", help="print the result as one JSON object")
        return parser

    def add_project(self, parser: CommandParser) -> None:
        parser.add_argument("project", metavar="PROJECT", help="the short name in the project's links")

    def add_settings(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--set", metavar="NAME=VALUE", action="append", default=[], help="a setting; may be repeated"
        )

    def find_project(self, slug: str) -> Project:
        """The project with this slug; UsageError with the closest match if there is none."""
        project = Project.objects.filter(slug=slug).first()
        if project is None:
            matches = get_close_matches(slug, Project.objects.values_list("slug", flat=True), n=1)
            hint = f" Did you mean {matches[0]}?" if matches else ""
            raise UsageError(f"There is no project called {slug}. Nothing was done.{hint}")
        return project

    def find_editable_project(self, slug: str) -> Project:
        """The project with this slug; UsageError if there is none, CommandError if it is archived."""
        project = self.find_project(slug)
        if project.archived_at:
            raise CommandError(f"{ProjectArchived.title} Nothing was changed. {ProjectArchived.detail}")
        return project

    def runs_forever(self, **options: Any) -> bool:
        """Whether the command runs until it is stopped, in which case its log is its output."""
        return False

    def execute(self, *args: Any, **options: Any) -> str | None:
        """Run the command; report errors as one message, and as JSON with --json."""
        self.as_json, self.meter = options["json"], ProgressMeter()
        try:
            with nullcontext() if self.runs_forever(**options) else quiet_log():
                return self._execute(*args, **options)
        except CommandError as error:
            if options["traceback"] or not getattr(self, "_called_from_command_line", False):
                raise
            self._exit(str(error), error.returncode)
        except KeyboardInterrupt:
            self._exit("Stopped. Data that was already stored is kept.", INTERRUPTED)
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # closing stdout would fail again
            sys.exit(BROKEN_PIPE)

    def _execute(self, *args: Any, **options: Any) -> str | None:
        try:
            return super().execute(*args, **options)
        except (OperationalError, ProgrammingError) as error:
            raise CommandError(describe_database_error(error)) from error
        finally:
            self.meter.clear()

    def _exit(self, message: str, code: int) -> NoReturn:
        if self.as_json:
            self.stdout.write(error_json(message, code))
        self.stderr.write(message)
        sys.exit(code)

    def write_message(self, text: str) -> None:
        """Write a line that is not part of the result, to standard error if the result is JSON."""
        stream = self.stderr if self.as_json else self.stdout
        stream.write(text, lambda plain: plain)
        stream.flush()

    def show_progress(self, task: str, share: float, detail: str = "") -> None:
        self.meter(task, share, detail)

    def write_result(self, result: Mapping[str, Any], text: str) -> None:
        """Write the result: as one JSON object with --json, otherwise as this text."""
        self.meter.clear()
        self.stdout.write(json.dumps(result, ensure_ascii=False) if self.as_json else text)

    def exit_negative(self, result: Mapping[str, Any], text: str) -> NoReturn:
        """Write a negative result and exit with code 1."""
        self.write_result(result, text)
        sys.exit(NEGATIVE_RESULT)


@contextmanager
def quiet_log() -> Iterator[None]:
    """Log only warnings, because the command prints its result. LOG_LEVEL=DEBUG logs everything."""
    log, root = logging.getLogger("concord"), logging.getLogger()
    before = log.level
    log.setLevel(logging.WARNING if root.level == logging.INFO else before)
    try:
        yield
    finally:
        log.setLevel(before)


def parse_settings(arguments: list[str]) -> dict[str, str]:
    """Parse NAME=VALUE arguments into a dictionary; UsageError for anything else."""
    for argument in arguments:
        if "=" not in argument:
            raise UsageError(f"--set needs NAME=VALUE, not {argument}. Nothing was changed.")
    return dict(argument.split("=", 1) for argument in arguments)


def describe_database_error(error: Exception) -> str:
    """Explain why the database cannot be used and what to do."""
    reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    advice = "Check that it is running and that its address and password are right."
    if any(sign in reason for sign in NOT_MIGRATED):
        advice = "Its tables are missing or belong to another version: run `manage.py migrate`."
    elif "locked" in reason:
        advice = "Another process is using it. Try again when that has finished."
    return f"The database could not be used ({reason}). {advice}"
