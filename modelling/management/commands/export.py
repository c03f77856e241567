"""Export a table, judgements in an interchange format, a report, or an archive to a file."""

import sys
from pathlib import Path
from typing import IO, Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser

from annotation.management.base import ConcordCommand, UsageError
from modelling.exports.catalogue import ExportFile, export_names, formats_for
from modelling.exports.interchange import INTERCHANGE_FORMATS
from modelling.exports.points import ExportError
from modelling.exports.service import ExportRequest
from modelling.updater.leases import process_owner
from modelling.updater.update import update_one


class Command(ConcordCommand):
    help = (
        "Exports a table of a project (ranking, items, judgements, workers, utilities, pairs, components, versions), "
        "its judgements in a format of another program, a report (HTML or PDF), or an archive with everything needed "
        "to check the ranking. The "
        "same event and version give the same file byte for byte, except for later changes to items, groups, settings "
        "and component names and for the data of erased people."
    )
    examples = (
        "export my-study --output ranking.csv",
        "export my-study judgements --format parquet --output judgements.parquet",
        "export my-study crowd-kit --as-of 1200 --output pairs.csv",
        "export my-study report --language de --output report.html",
        "export my-study report --format pdf --output report.pdf",
        'export my-study archive --licence "CC BY 4.0" --output my-study.zip',
    )

    def add_arguments(self, parser: CommandParser) -> None:
        self.add_project(parser)
        parser.add_argument(
            "what",
            nargs="?",
            default="ranking",
            choices=export_names(),
            help="table, format, report or archive (default: ranking)",
        )
        parser.add_argument(
            "--format",
            default="",
            help="of a table: csv, json, jsonl or parquet (default: csv); of a report: html or pdf (default: html)",
        )
        parser.add_argument("--as-of", type=int, metavar="EVENT", help="include events up to this one (default: all)")
        parser.add_argument(
            "--model-version", type=int, metavar="NUMBER", help="the model version (default: the shown one)"
        )
        parser.add_argument("--licence", default="", help="licence of the data in an archive")
        parser.add_argument("--language", default="", choices=["", *dict(settings.LANGUAGES)], help="of a report")
        parser.add_argument("--output", type=Path, help="file to write (default: standard output)")

    def handle(self, *args: Any, **options: Any) -> None:
        project, what, output = self.find_project(options["project"]), options["what"], options["output"]
        if self.as_json and output is None:
            raise UsageError("--json needs --output: standard output holds either the file or the result.")
        if options["format"] not in ("", *formats_for(what)):
            raise UsageError(f"{what} can be exported as {', '.join(formats_for(what))}. Nothing was written.")
        try:
            selection = options["format"], options["as_of"], options["model_version"], options["licence"]
            language = options["language"]
            request = ExportRequest(project, None, what, *selection, language=language)
            export = request.build_here(fit=lambda: update_one(process_owner(), project, self.show_progress))
            written = self.write(export, output)
        except ExportError as error:
            raise CommandError(f"{error} Nothing was written.") from None
        if output is not None:
            self.report(export, what, output, written)

    def write(self, export: ExportFile, output: Path | None) -> int:
        """Write to standard output, or to a temporary file that is renamed when it is complete."""
        if output is None:
            return self.copy(export, sys.stdout.buffer)
        draft = output.with_name(f"{output.name}.partial")
        try:
            with draft.open("wb") as file:
                written = self.copy(export, file)
            draft.replace(output)
        except OSError as error:
            raise CommandError(f"The file could not be written to {output}: {error.strerror}.") from None
        finally:
            draft.unlink(missing_ok=True)
        return written

    def copy(self, export: ExportFile, file: IO[bytes]) -> int:
        written = 0
        for step, chunk in enumerate(export.chunks(), start=1):
            written += file.write(chunk)
            if export.steps > 1:
                self.show_progress("writing", min(step / export.steps, 1.0))
        return written

    def report(self, export: ExportFile, what: str, output: Path, written: int) -> None:
        version = "without a model version" if export.version is None else f"version {export.version}"
        result = {
            "what": what,
            "file": str(output),
            "bytes": written,
            "version": export.version,
            "as_of_seq": export.as_of_seq,
        }
        text = f"Exported {what} as of event {export.as_of_seq}, {version}, to {output}."
        if what in INTERCHANGE_FORMATS:
            result["ties"] = str(INTERCHANGE_FORMATS[what].ties)
            text += f" {result['ties']}"
        self.write_result(result, text)
