"""Serves the pages and, beside them, keeps the models up to date. Both end together, also on kill -9."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandParser

MAX_FRAME = 16_384


class Command(BaseCommand):
    help = "Serves Concord on this machine, with the updater as a child process."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--host", default="127.0.0.1", help="127.0.0.1 unless a proxy in front needs another")
        parser.add_argument("--port", type=int, default=8000)
        parser.add_argument("--no-updater", action="store_true", help="serve pages only")

    def handle(self, *args: Any, **options: Any) -> None:
        call_command("collectstatic", interactive=False, verbosity=0)
        address = f"http://{options['host']}:{options['port']}"
        self.stdout.write(f"\nConcord is at {address}/ (Ctrl-C ends it). Data: {settings.DATA_DIR}\n")
        self.stdout.flush()
        config = uvicorn.Config(
            "config.asgi:application",
            host=options["host"],
            port=options["port"],
            lifespan="off",
            access_log=False,
            log_level="warning",
            server_header=False,
            ws_max_size=MAX_FRAME,
            ws="websockets-sansio",
            timeout_graceful_shutdown=5,
        )
        with updater(wanted=not options["no_updater"]):
            uvicorn.Server(config).run()


@contextmanager
def updater(*, wanted: bool) -> Iterator[None]:
    """An updater that lives as long as this block, and dies with this process however that dies."""
    if not wanted:
        yield
        return
    command = [sys.executable, sys.argv[0], "update_models", "--with-parent"]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)  # noqa: S603
    try:
        yield
    finally:
        child.terminate()
        child.wait(timeout=10)
