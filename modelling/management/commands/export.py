"""Writes a table of a project, its judgements in a format of others, or an archive to a file."""

import sys
from pathlib import Path
from typing import IO, Any

from django.core.management.base import CommandError, CommandParser

from annotation.models import Project
from annotation.terminal import TerminalCommand, WrongCall
from modelling import exporting
from modelling.claiming import owner_here
from modelling.exporting.catalogue import ARCHIVE, formats_of, names
from modelling.exporting.exchange import EXCHANGES
from modelling.exporting.requests import archive_now
from modelling.updating import run_one


class Command(TerminalCommand):
    help = (
        "Writes what a project has learned or been told: a table (ranking, items, judgements, workers, utilities, "
        "pairs, components, versions), the judgements in a format that another program reads, or an archive with "
        "everything needed to check the ranking. The same point gives the same file, byte by byte, except for what "
        "people change by hand since: items and their groups, settings, names of components, and what an erased person "
        "takes along."
    )
    examples = (
        "export my-study --output ranking.csv",
        "export my-study judgements --format parquet --output judgements.parquet",
        "export my-study crowd-kit --as-of 1200 --output pairs.csv",
        'export my-study archive --licence "CC BY 4.0" --output my-study.zip',
    )

    def add_arguments(self, parser: CommandParser) -> None:
        self.add_project(parser)
        parser.add_argument("what", nargs="?", default="ranking", choices=names(), help="the ranking without it")
        parser.add_argument("--format", default="", help="csv, json, jsonl or parquet, of a table; csv without it")
        parser.add_argument("--as-of", type=int, metavar="EVENT", help="the log up to this event; all without it")
        parser.add_argument("--model-version", type=int, metavar="NUMBER", help="the shown version without it")
        parser.add_argument("--licence", default="", help="of an archive: under which licence it may be used")
        parser.add_argument("--output", type=Path, help="a file; standard output without it")

    def handle(self, *args: Any, **options: Any) -> None:
        project, what, output = self.find_project(options["project"]), options["what"], options["output"]
        if self.as_json and output is None:
            raise WrongCall("--json needs --output: the file itself would stand in the way of the answer.")
        if options["format"] not in ("", *formats_of(what)):
            raise WrongCall(f"The {what} can be had as {', '.join(formats_of(what))}. Nothing was written.")
        try:
            point = self.point(project, what, options["as_of"], options["model_version"])
            export = exporting.export_at(point, what, options["format"], options["licence"])
            written = self.write(export, output)
        except exporting.NoExport as refusal:
            raise CommandError(f"{refusal} Nothing was written.") from None
        if output is not None:
            self.tell(export, what, output, written)

    def point(self, project: Project, what: str, as_of: int | None, version: int | None) -> exporting.Point:
        if what == ARCHIVE and as_of is None and version is None:
            return archive_now(project, lambda: run_one(owner_here(), project, self.progress))
        return exporting.point_of(project, as_of, version)

    def write(self, export: exporting.Export, output: Path | None) -> int:
        """To a file that takes its name when it is whole, or to standard output."""
        if output is None:
            return self.fill(export, sys.stdout.buffer)
        draft = output.with_name(f"{output.name}.partial")
        try:
            with draft.open("wb") as file:
                written = self.fill(export, file)
            draft.replace(output)
        except OSError as error:
            raise CommandError(f"The file could not be written to {output}: {error.strerror}.") from None
        finally:
            draft.unlink(missing_ok=True)
        return written

    def fill(self, export: exporting.Export, file: IO[bytes]) -> int:
        written = 0
        for step, piece in enumerate(export.pieces(), start=1):
            written += file.write(piece)
            if export.steps > 1:
                self.progress("writing", min(step / export.steps, 1.0))
        return written

    def tell(self, export: exporting.Export, what: str, output: Path, written: int) -> None:
        version = "no version of the model" if export.version is None else f"version {export.version}"
        facts = {
            "what": what,
            "file": str(output),
            "bytes": written,
            "version": export.version,
            "as_of_seq": export.as_of_seq,
        }
        words = f"{what}, {version}, as of event {export.as_of_seq}, is in {output}."
        if what in EXCHANGES:
            facts["ties"] = str(EXCHANGES[what].ties)
            words += f" {facts['ties']}"
        self.answer(facts, words)
