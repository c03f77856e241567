"""Update the models of all projects until stopped. `serve` runs this command as a child process."""

import os
import sys
import threading
import time
from argparse import SUPPRESS
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db import OperationalError, close_old_connections
from threadpoolctl import threadpool_limits

from annotation.management.base import ConcordCommand, UsageError
from annotation.management.schema import refuse_newer_database
from modelling.models import ModelSnapshot, SettingsSearch, UpdateState
from modelling.training.storage.array_store import remove_temporary_files
from modelling.updater.leases import (
    BEAT_SECONDS,
    is_leased,
    process_owner,
    record_heartbeat,
    release_dead_leases,
)
from modelling.updater.long_updates import LongUpdates
from modelling.updater.loop import run_once
from modelling.updater.settings_search import evaluate_claimed
from modelling.updater.startup import allocate_blas_buffers
from modelling.updater.update import update_claimed, update_one
from modelling.updater.update_state import ReportProgress

IDLE_SECONDS = 0.5
NICENESS = 10


class Command(ConcordCommand):
    help = (
        "Updates the models with new judgements. Without --project or --once it runs until it is stopped and checks "
        "twice a second for a project that needs an update; `serve` runs it like this. Several updaters may run at "
        "once: they never work on the same project."
    )
    examples = ("update_models --project my-study", "update_models --once --json")

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--project", metavar="PROJECT", help="update only this project, once, now")
        parser.add_argument("--once", action="store_true", help="stop when all projects are up to date")
        parser.add_argument("--nice", type=int, default=NICENESS, help="the niceness of the process (default: 10)")
        parser.add_argument("--with-parent", action="store_true", help="exit when standard input closes")
        parser.add_argument("--lease", metavar="OWNER", help=SUPPRESS)  # with --project: continue under this lease
        parser.add_argument("--search", action="store_true", help=SUPPRESS)  # with --lease: the settings search

    def runs_forever(self, **options: Any) -> bool:
        return not (options["project"] or options["once"])

    def handle(self, *args: Any, **options: Any) -> None:
        if self.as_json and self.runs_forever(**options):
            raise UsageError("--json needs --project or --once, because an updater that runs forever has no result.")
        os.nice(options["nice"])  # requests have priority
        if options["with_parent"]:
            threading.Thread(target=exit_with_parent, daemon=True).start()
        refuse_newer_database()
        allocate_blas_buffers()
        owner = process_owner()
        remove_temporary_files()
        release_dead_leases()
        with threadpool_limits(1):  # faster on matrices of this size, and bit-identical everywhere
            if options["lease"]:
                self.run_leased(options["project"], options["lease"], options["search"])
            elif options["project"]:
                self.update(owner, options["project"])
            elif options["once"]:
                self.update_all(owner)
            else:
                run_forever(owner, self.show_progress if sys.stderr.isatty() else None)

    def run_leased(self, slug: str, owner: str, search: bool) -> None:
        """Run the update or search that another updater has claimed and handed over."""
        leased = {"project__slug": slug, "owner": owner, "lease_until__isnull": False}
        if search:
            evaluate_claimed(SettingsSearch.objects.select_related("project").get(**leased))
        else:
            update_claimed(UpdateState.objects.select_related("project", "current").get(**leased))

    def update(self, owner: str, slug: str) -> None:
        project = self.find_project(slug)
        snapshot = update_one(owner, project, self.show_progress)
        state = UpdateState.objects.get(project=project)
        if snapshot is None and is_leased(state):
            raise CommandError(f"Another updater ({state.owner}) is updating {slug}. Nothing was done.")
        if snapshot is None and state.message:
            raise CommandError(state.message)
        text = f"{snapshot} was published" if snapshot else "already up to date"
        result = snapshot_facts(snapshot) if snapshot else {"project": slug, "version": None}
        self.write_result(result, f"{slug}: {text}.")

    def update_all(self, owner: str) -> None:
        """Update every project; report those whose update failed."""
        published = []
        while (result := run_once(owner, self.show_progress)).worked:
            published += [result.version] if result.version else []
        degraded = UpdateState.objects.filter(condition=UpdateState.Condition.DEGRADED).select_related("project")
        errors = {state.project.slug: state.message for state in degraded}
        facts = {"published": [snapshot_facts(snapshot) for snapshot in published], "errors": errors}
        facts["troubles"] = errors  # the name of `errors` in 0.1
        lines = [f"{snapshot.project.slug}: {snapshot} was published." for snapshot in published]
        lines += [f"{slug}: {message}" for slug, message in errors.items()]
        finish = self.exit_negative if errors else self.write_result
        finish(facts, "\n".join(lines) or "All projects are up to date.")


def snapshot_facts(snapshot: ModelSnapshot) -> dict[str, Any]:
    return {
        "project": snapshot.project.slug,
        "version": snapshot.number,
        "kind": snapshot.kind,
        "judgements": snapshot.included,
        "as_of_seq": snapshot.last_sequence,
        "seconds": snapshot.seconds,
    }


def run_forever(owner: str, report: ReportProgress | None) -> None:
    """Update projects as long as any needs it, then poll twice a second. Wait while the database is unavailable."""
    last_beat, long_updates = 0.0, LongUpdates()
    while True:
        try:
            if time.monotonic() - last_beat > BEAT_SECONDS:
                last_beat = time.monotonic()
                close_old_connections()  # the database file may have been replaced
                record_heartbeat()
            worked = run_once(owner, report, long_updates).worked
        except OperationalError:
            close_old_connections()
            worked = False
        if not worked:
            time.sleep(IDLE_SECONDS)


def exit_with_parent() -> None:
    """Exit when the parent process dies, which closes its end of the pipe."""
    while os.read(sys.stdin.fileno(), 1024):  # unlike sys.stdin.read, holds no lock needed at exit
        pass
    os._exit(0)
