"""Learns the result of an archive again, in an empty database of its own, and says whether the ranking agrees."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import CommandError, CommandParser
from django.utils.module_loading import import_string
from threadpoolctl import threadpool_limits

from annotation.models import Project
from annotation.terminal import TerminalCommand, WrongCall
from modelling.exporting.reproducing import SAME_SCORE, reproduce
from modelling.exporting.unpacking import NoArchive, unpack


class Command(TerminalCommand):
    help = (
        "Fits the model again from the events, texts, settings and seed of an archive, in an empty database that is "
        "thrown away afterwards, and compares the ranking with the archive's. Nothing of this installation is read or "
        "changed. Exit code 0: it agrees. 1: it differs, or the file cannot be checked."
    )
    examples = ("reproduce my-study.zip", "reproduce my-study.zip --json")

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("archive", type=Path, metavar="ARCHIVE")
        parser.add_argument("--here", action="store_true", help="in this database, which must be empty")

    def handle(self, *args: Any, **options: Any) -> None:
        with tempfile.TemporaryDirectory(prefix="concord-reproduce-") as name:
            folder = Path(name)
            try:
                manifest = unpack(options["archive"], folder)
                verdict = self.here(folder, manifest) if options["here"] else self.apart(options["archive"], folder)
            except NoArchive as refusal:
                raise CommandError(f"{refusal} Nothing was changed.") from None
        end = self.answer if verdict["agrees"] else self.answer_no
        end(verdict, in_words(verdict))

    def here(self, folder: Path, manifest: dict[str, Any]) -> dict[str, Any]:
        call_command("migrate", verbosity=0)
        if Project.objects.exists():
            raise WrongCall("This database has projects. Without --here an empty one is made. Nothing was changed.")
        with threadpool_limits(1):  # sums in one order: equal to the last bit
            return reproduce(folder, manifest, self.progress).as_dict()

    def apart(self, archive: Path, folder: Path) -> dict[str, Any]:
        """The same command in a process whose database is a new file in this folder."""
        data = folder / "data"
        data.mkdir()
        command = [sys.executable, sys.argv[0], "reproduce", str(archive), "--here", "--json"]
        environment = import_string(settings.FRESH_ENVIRONMENT)(os.environ, data)
        ran = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False)  # noqa: S603
        try:
            told: dict[str, Any] = json.loads(ran.stdout)
        except ValueError:
            raise NoArchive(f"The process that fits it again ended with code {ran.returncode}.") from None
        if "error" in told:
            raise NoArchive(str(told["error"]).removesuffix(" Nothing was changed."))
        return told


def in_words(verdict: dict[str, Any]) -> str:
    size = f"{verdict['events']:,} events, {verdict['items']} items"
    what = f"Version {verdict['version']} of {verdict['project']} ({size})"
    if verdict["agrees"]:
        return f"{what}: the ranking agrees. Same order; scores differ by at most {verdict['max_difference']:.1e}."
    told = []
    if not verdict["chain"]:
        told.append("The events do not match their hashes.")
    if verdict["max_difference"] is None:
        told.append("The ranking has other items.")
    else:
        order, most = "Same order" if verdict["same_order"] else "Another order", f"at most {SAME_SCORE:.0e} agrees"
        told.append(f"{order}; scores differ by up to {verdict['max_difference']:.1e} ({most}).")
    if verdict["made_by"] != verdict["checked_by"]:
        told.append(f"It was made by code version {verdict['made_by']}, this is {verdict['checked_by']}.")
    return f"{what}: the ranking does not agree. {' '.join(told)}"
