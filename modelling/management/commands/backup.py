"""Back up the installation while Concord runs. docs/deployment.md explains how to restore it."""

from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from annotation.management.base import ConcordCommand
from modelling.exports.backup import BackupError, Manifest, back_up


class Command(ConcordCommand):
    help = (
        "Copies the database, the model data and the secret key to a new folder while Concord runs. The folder gets "
        "its name only when it is complete. docs/deployment.md explains how to restore it."
    )
    examples = ("backup /backups/monday", "backup /backups/monday --without-secret --json")

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("destination", metavar="FOLDER", type=Path, help="a folder that does not exist yet")
        parser.add_argument("--without-secret", action="store_true", help="leave the secret key out")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            manifest = back_up(
                options["destination"], with_secret=not options["without_secret"], report=self.show_progress
            )
        except BackupError as error:
            raise CommandError(str(error)) from error
        self.write_result(manifest.as_dict(), describe(manifest, options["destination"]))


def describe(manifest: Manifest, destination: Path) -> str:
    size = sum(file.bytes for file in manifest.files) / 1e6
    lines = [f"{len(manifest.files)} files, {size:.1f} MB, are in {destination} ({manifest.seconds} s)."]
    if not manifest.secret:
        lines.append("The secret key is not included: with a new key all users and workers must log in or join again.")
    if manifest.missing:
        lines.append(f"{len(manifest.missing)} model data files were already missing; see `manage.py verify`.")
    return "\n".join(lines)
