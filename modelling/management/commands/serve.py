"""Serves the pages and, beside them, keeps the models up to date. Both end together, also on kill -9."""

import logging
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from django.conf import settings
from django.core.management.base import CommandError, CommandParser
from django.utils.module_loading import import_string

from annotation.terminal import TerminalCommand

log = logging.getLogger("concord.serve")

MAX_FRAME = 16_384
RESTART_SECONDS = 1.0


class Command(TerminalCommand):
    help = (
        "Serves Concord on this machine, and beside it keeps the models up to date in a child process. Both end "
        "together, by Ctrl-C or however else."
    )
    examples = ("serve", "serve --port 8080 --no-updater")

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--host", default="127.0.0.1", help="127.0.0.1 unless a proxy in front needs another")
        parser.add_argument("--port", type=int, default=8000, help="8000 if not given")
        parser.add_argument("--no-updater", action="store_true", help="serve pages only")

    def goes_on(self, **options: Any) -> bool:
        return True

    def handle(self, *args: Any, **options: Any) -> None:
        door = open_door(options["host"], options["port"])
        import_string(settings.COLLECT_STATIC)()
        address = f"http://{options['host']}:{options['port']}"
        facts = {"address": f"{address}/", "data": str(settings.DATA_DIR)}
        self.answer(facts, f"\nConcord is at {address}/ (Ctrl-C ends it). Data: {settings.DATA_DIR}\n")
        self.stdout.flush()
        with updater(wanted=not options["no_updater"]):
            uvicorn.Server(web_config()).run(sockets=[door])


def web_config() -> uvicorn.Config:
    """How pages and sockets are served, and what they refuse."""
    return uvicorn.Config(
        "config.asgi:application",
        lifespan="off",
        access_log=False,
        log_level="warning",
        server_header=False,
        proxy_headers=False,  # anybody can write X-Forwarded-For; who asks is who connects
        ws_max_size=MAX_FRAME,
        ws="websockets-sansio",
        timeout_graceful_shutdown=5,
    )


def open_door(host: str, port: int) -> socket.socket:
    """The listening socket, before anything else is started or said."""
    try:
        return socket.create_server((host, port), backlog=2048)
    except OSError as error:
        hint = "choose another --port (make run PORT=...)"
        message = f"Cannot listen on {host}:{port} ({error.strerror}). Nothing was started; {hint}."
        raise CommandError(message) from None


@contextmanager
def updater(*, wanted: bool) -> Iterator[None]:
    """An updater that lives as long as this block, and dies with this process however that dies."""
    if not wanted:
        yield
        return
    child = Child([sys.executable, sys.argv[0], "update_models", "--with-parent"])
    try:
        yield
    finally:
        child.end()


class Child:
    """A process that is started again when it dies, until it is told to end."""

    def __init__(self, command: list[str]) -> None:
        self.command, self.ending = command, threading.Event()
        self.process = self._start()
        threading.Thread(target=self._watch, daemon=True).start()

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self.command, stdin=subprocess.PIPE, start_new_session=True)  # noqa: S603

    def _watch(self) -> None:
        while True:
            self.process.wait()
            if self.ending.wait(timeout=RESTART_SECONDS):
                return
            log.warning("the updater ended by itself and is started again")
            self.process = self._start()

    def end(self) -> None:
        self.ending.set()
        self.process.terminate()
        self.process.wait(timeout=10)
