"""Takes a backup while Concord runs. docs/deployment.md says how to restore it."""

from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from annotation.terminal import TerminalCommand
from modelling.backups import Manifest, NoBackup, back_up


class Command(TerminalCommand):
    help = (
        "Copies the database, the snapshots and the secret key to a new folder, while Concord runs. The folder appears "
        "under its name only when it is complete. docs/deployment.md says how to restore it."
    )
    examples = ("backup /backups/monday", "backup /backups/monday --without-secret --json")

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("destination", metavar="FOLDER", type=Path, help="a folder that does not exist yet")
        parser.add_argument("--without-secret", action="store_true", help="leave the secret key out")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            manifest = back_up(options["destination"], with_secret=not options["without_secret"], tell=self.progress)
        except NoBackup as refusal:
            raise CommandError(str(refusal)) from refusal
        self.answer(manifest.as_dict(), in_words(manifest, options["destination"]))


def in_words(manifest: Manifest, destination: Path) -> str:
    size = sum(file.bytes for file in manifest.files) / 1e6
    lines = [f"{len(manifest.files)} files, {size:.1f} MB, are in {destination} ({manifest.seconds} s)."]
    if not manifest.secret:
        lines.append("The secret key is not in it: with another key, people log in again and workers start anew.")
    if manifest.missing:
        lines.append(f"Files of arrays missing before: {len(manifest.missing)}. `manage.py verify` names the versions.")
    return "\n".join(lines)
