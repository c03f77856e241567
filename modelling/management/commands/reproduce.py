"""Refit the model from an archive in an empty database and compare the ranking."""

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

from annotation.management.base import ConcordCommand, UsageError
from annotation.models import Project
from modelling.exports.archive_reader import ArchiveError, unpack
from modelling.exports.reproduce import SCORE_TOLERANCE, reproduce


class Command(ConcordCommand):
    help = (
        "Refits the model from the events, texts, settings and seed of an archive in a temporary empty database, and "
        "compares the ranking with the archive's. Neither reads nor changes this installation. Exit code 0: the "
        "rankings agree. 1: they differ, or the file cannot be checked."
    )
    examples = ("reproduce my-study.zip", "reproduce my-study.zip --json")

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("archive", type=Path, metavar="ARCHIVE")
        parser.add_argument("--here", action="store_true", help="use this database, which must be empty")

    def handle(self, *args: Any, **options: Any) -> None:
        with tempfile.TemporaryDirectory(prefix="concord-reproduce-") as name:
            folder = Path(name)
            try:
                manifest = unpack(options["archive"], folder)
                if options["here"]:
                    verdict = self.run_here(folder, manifest)
                else:
                    verdict = self.run_in_new_process(options["archive"], folder)
            except ArchiveError as error:
                raise CommandError(f"{error} Nothing was changed.") from None
        finish = self.write_result if verdict["agrees"] else self.exit_negative
        finish(verdict, describe(verdict))

    def run_here(self, folder: Path, manifest: dict[str, Any]) -> dict[str, Any]:
        call_command("migrate", verbosity=0)
        if Project.objects.exists():
            raise UsageError("This database is not empty. Without --here a temporary one is used. Nothing was changed.")
        with threadpool_limits(1):  # a fixed order of summation gives bit-identical results
            return reproduce(folder, manifest, self.show_progress).as_dict()

    def run_in_new_process(self, archive: Path, folder: Path) -> dict[str, Any]:
        """Run the same command in a process whose database is a new file in this folder."""
        data = folder / "data"
        data.mkdir()
        command = [sys.executable, sys.argv[0], "reproduce", str(archive), "--here", "--json"]
        environment = import_string(settings.FRESH_ENVIRONMENT)(os.environ, data)
        ran = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False)  # noqa: S603
        try:
            verdict: dict[str, Any] = json.loads(ran.stdout)
        except ValueError:
            raise ArchiveError(f"The process that refits the model ended with code {ran.returncode}.") from None
        if "error" in verdict:
            raise ArchiveError(str(verdict["error"]).removesuffix(" Nothing was changed."))
        return verdict


PASSPORTS = {
    "none": "The archive has no passport.",
    "verified": "The passport's hash matches; changes to the plan since it was frozen: {changed}.",
    "damaged": "The passport does not match its hash.",
}


def describe(verdict: dict[str, Any]) -> str:
    size = f"{verdict['events']:,} events, {verdict['items']} items"
    subject = f"Version {verdict['version']} of {verdict['project']} ({size})"
    names = verdict["passport_changed"]
    changed = f"{verdict['passport_changes']} ({', '.join(names)})" if names else "none"
    plan = PASSPORTS[verdict["passport"]].format(changed=changed)
    if verdict["agrees"]:
        order = f"Same order; scores differ by at most {verdict['max_difference']:.1e}."
        return f"{subject}: the ranking agrees. {order} {plan}"
    reasons = []
    if not verdict["chain"]:
        reasons.append("The events do not match their hashes.")
    if verdict["max_difference"] is None:
        reasons.append("The ranking contains different items.")
    else:
        order = "Same order" if verdict["same_order"] else "Different order"
        difference = f"{verdict['max_difference']:.1e} (tolerance {SCORE_TOLERANCE:.0e})"
        reasons.append(f"{order}; scores differ by up to {difference}.")
    if verdict["made_by"] != verdict["checked_by"]:
        reasons.append(f"Code version of the archive: {verdict['made_by']}; here: {verdict['checked_by']}.")
    return f"{subject}: the ranking does not agree. {' '.join(reasons)} {plan}"
