"""Keeps every project's model up to date until it is stopped. `serve` runs it as a child."""

import os
import socket
import sys
import threading
import time
from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.db import OperationalError, close_old_connections

from modelling.claiming import beat
from modelling.updating import run_one

IDLE_SECONDS = 0.5
BEAT_SECONDS = 5.0
NICENESS = 10


class Command(BaseCommand):
    help = "Looks for projects with new judgements and fits their models, one after the other."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--once", action="store_true", help="stop when nothing is left to do")
        parser.add_argument("--with-parent", action="store_true", help="end when standard input closes")

    def handle(self, *args: Any, **options: Any) -> None:
        os.nice(NICENESS)  # judging comes first
        if options["with_parent"]:
            threading.Thread(target=end_with_parent, daemon=True).start()
        owner = f"{socket.gethostname()[:25]}-{os.getpid()}"
        if options["once"]:
            while run_one(owner):
                pass
        else:
            watch(owner)


def watch(owner: str) -> None:
    """Works while there is work; otherwise looks again twice a second. A database that is away is waited for."""
    last_beat = 0.0
    while True:
        try:
            if time.monotonic() - last_beat > BEAT_SECONDS:
                last_beat = time.monotonic()
                beat()
            worked = run_one(owner)
        except OperationalError:
            close_old_connections()
            worked = None
        if worked is None:
            time.sleep(IDLE_SECONDS)


def end_with_parent() -> None:
    """Returns never: when the parent goes, however it goes, its end of the pipe closes and this process ends."""
    sys.stdin.buffer.read()
    os._exit(0)
