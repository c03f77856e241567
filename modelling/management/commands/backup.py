"""Takes a backup while Concord runs. docs/deployment.md says how to restore it."""

import json
import sys
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from modelling.backups import Manifest, NoBackup, back_up


class Command(BaseCommand):
    help = "Copies the database, the snapshots and the secret key to a new folder, while Concord runs."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("destination", type=Path, help="a folder that does not exist yet")
        parser.add_argument("--without-secret", action="store_true", help="leave the secret key out")
        parser.add_argument("--json", action="store_true", help="print the manifest instead of words")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            manifest = back_up(options["destination"], with_secret=not options["without_secret"], tell=self.tell)
        except NoBackup as refusal:
            raise CommandError(str(refusal)) from refusal
        finally:
            self.clear_line()
        self.stdout.write(json.dumps(manifest.as_dict()) if options["json"] else in_words(manifest, **options))

    def tell(self, what: str, share: float) -> None:
        """One line that is written over, for people only."""
        if sys.stderr.isatty():
            sys.stderr.write(f"\r\033[K{what} {share:.0%}")
            sys.stderr.flush()

    def clear_line(self) -> None:
        if sys.stderr.isatty():
            sys.stderr.write("\r\033[K")


def in_words(manifest: Manifest, *, destination: Path, **options: Any) -> str:
    size = sum(file.bytes for file in manifest.files) / 1e6
    lines = [f"{len(manifest.files)} files, {size:.1f} MB, are in {destination} ({manifest.seconds} s)."]
    if not manifest.secret:
        lines.append("The secret key is not in it: with another key, people log in again and workers start anew.")
    if manifest.missing:
        lines.append(f"Files of arrays missing before: {len(manifest.missing)}. `manage.py verify` names the versions.")
    return "\n".join(lines)
