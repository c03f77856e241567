"""Keeps every project's model up to date until it is stopped. `serve` runs it as a child."""

import os
import sys
import threading
import time
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db import OperationalError, close_old_connections
from threadpoolctl import threadpool_limits

from annotation.terminal import TerminalCommand, WrongCall
from modelling.arrays import remove_leftovers
from modelling.claiming import Tell, beat, is_held, owner_here, release_claims_of_the_dead
from modelling.models import ModelSnapshot, UpdateState
from modelling.turns import take_turn
from modelling.updating import run_one
from modelling.warming import hold_buffers

IDLE_SECONDS = 0.5
BEAT_SECONDS = 5.0
NICENESS = 10


class Command(TerminalCommand):
    help = (
        "Turns new judgements into new versions of the models. Without --project or --once it goes on until it is "
        "stopped, looking twice a second for a project that is behind; `serve` runs it so. Several may run at once: "
        "they never work on the same project."
    )
    examples = ("update_models --project my-study", "update_models --once --json")

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--project", metavar="PROJECT", help="only the project of this short name, once, now")
        parser.add_argument("--once", action="store_true", help="stop when nothing is left to do")
        parser.add_argument("--nice", type=int, default=NICENESS, help="how far it steps back behind other processes")
        parser.add_argument("--with-parent", action="store_true", help="end when standard input closes")

    def goes_on(self, **options: Any) -> bool:
        return not (options["project"] or options["once"])

    def handle(self, *args: Any, **options: Any) -> None:
        if self.as_json and self.goes_on(**options):
            raise WrongCall("An updater that goes on for ever has no answer: --json needs --project or --once.")
        os.nice(options["nice"])  # judging comes first
        if options["with_parent"]:
            threading.Thread(target=end_with_parent, daemon=True).start()
        hold_buffers()
        owner = owner_here()
        remove_leftovers()
        release_claims_of_the_dead()
        with threadpool_limits(1):  # faster on matrices of this size, and the same to the last bit wherever it runs
            if options["project"]:
                self.update(owner, options["project"])
            elif options["once"]:
                self.update_all(owner)
            else:
                watch(owner, self.progress if sys.stderr.isatty() else None)

    def update(self, owner: str, slug: str) -> None:
        """One project is brought up to date, and it is said how that went."""
        project = self.find_project(slug)
        snapshot = run_one(owner, project, self.progress)
        state = UpdateState.objects.get(project=project)
        if snapshot is None and is_held(state):
            raise CommandError(f"Another updater ({state.owner}) is at work on {slug} now. Nothing was done here.")
        if snapshot is None and state.words:
            raise CommandError(state.words)
        said = f"{snapshot} was published" if snapshot else "nothing new to learn"
        facts = facts_of(snapshot) if snapshot else {"project": slug, "version": None}
        self.answer(facts, f"{slug}: {said}.")

    def update_all(self, owner: str) -> None:
        """Nothing is left to do; what could not be done is named."""
        published = []
        while (turn := take_turn(owner, self.progress)).worked:
            published += [turn.version] if turn.version else []
        degraded = UpdateState.objects.filter(condition=UpdateState.Condition.DEGRADED).select_related("project")
        troubles = {state.project.slug: state.words for state in degraded}
        facts = {"published": [facts_of(snapshot) for snapshot in published], "troubles": troubles}
        lines = [f"{snapshot.project.slug}: {snapshot} was published." for snapshot in published]
        lines += [f"{slug}: {words}" for slug, words in troubles.items()]
        tell = self.answer_no if troubles else self.answer
        tell(facts, "\n".join(lines) or "Nothing new to learn.")


def facts_of(snapshot: ModelSnapshot) -> dict[str, Any]:
    return {
        "project": snapshot.project.slug,
        "version": snapshot.number,
        "kind": snapshot.kind,
        "judgements": snapshot.included,
        "as_of_seq": snapshot.last_sequence,
        "seconds": snapshot.seconds,
    }


def watch(owner: str, tell: Tell | None) -> None:
    """Works while there is work; otherwise looks again twice a second. A database that is away is waited for."""
    last_beat = 0.0
    while True:
        try:
            if time.monotonic() - last_beat > BEAT_SECONDS:
                last_beat = time.monotonic()
                beat()
            worked = take_turn(owner, tell).worked
        except OperationalError:
            close_old_connections()
            worked = False
        if not worked:
            time.sleep(IDLE_SECONDS)


def end_with_parent() -> None:
    """Returns never: when the parent goes, however it goes, its end of the pipe closes and this process ends."""
    sys.stdin.buffer.read()
    os._exit(0)
