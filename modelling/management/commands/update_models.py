"""Keeps every project's model up to date until it is stopped. `serve` runs it as a child."""

import os
import sys
import threading
import time
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import OperationalError, close_old_connections
from threadpoolctl import threadpool_limits

from annotation.models import Project
from modelling.arrays import remove_leftovers
from modelling.claiming import beat, is_held, owner_here, release_claims_of_the_dead
from modelling.models import UpdateState
from modelling.searching import search_one
from modelling.updating import run_one

IDLE_SECONDS = 0.5
BEAT_SECONDS = 5.0
NICENESS = 10


class Command(BaseCommand):
    help = "Looks for projects with new judgements and fits their models, one after the other."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--once", action="store_true", help="stop when nothing is left to do")
        parser.add_argument("--project", metavar="SLUG", help="only this project, once, now")
        parser.add_argument("--nice", type=int, default=NICENESS, help="how far it steps back behind other processes")
        parser.add_argument("--with-parent", action="store_true", help="end when standard input closes")

    def handle(self, *args: Any, **options: Any) -> None:
        os.nice(options["nice"])  # judging comes first
        if options["with_parent"]:
            threading.Thread(target=end_with_parent, daemon=True).start()
        owner = owner_here()
        remove_leftovers()
        release_claims_of_the_dead()
        with threadpool_limits(1):  # faster on matrices of this size, and the same to the last bit wherever it runs
            if options["project"]:
                self.update(owner, options["project"])
            elif options["once"]:
                while run_one(owner) or search_one(owner):
                    pass
            else:
                watch(owner)

    def update(self, owner: str, slug: str) -> None:
        """One project is brought up to date, and it is said how that went."""
        project = Project.objects.filter(slug=slug).first()
        if project is None:
            raise CommandError(f"There is no project called {slug}. Nothing was done.")
        snapshot = run_one(owner, project)
        state = UpdateState.objects.get(project=project)
        if snapshot is None and is_held(state):
            raise CommandError(f"Another updater ({state.owner}) is at work on {slug} now. Nothing was done here.")
        if snapshot is None and state.words:
            raise CommandError(state.words)
        said = f"{snapshot} was published" if snapshot else "nothing new to learn"
        self.stdout.write(f"{slug}: {said}.")


def watch(owner: str) -> None:
    """Works while there is work; otherwise looks again twice a second. A database that is away is waited for."""
    last_beat = 0.0
    while True:
        try:
            if time.monotonic() - last_beat > BEAT_SECONDS:
                last_beat = time.monotonic()
                beat()
            worked = bool(run_one(owner)) or search_one(owner)
        except OperationalError:
            close_old_connections()
            worked = False
        if not worked:
            time.sleep(IDLE_SECONDS)


def end_with_parent() -> None:
    """Returns never: when the parent goes, however it goes, its end of the pipe closes and this process ends."""
    sys.stdin.buffer.read()
    os._exit(0)
