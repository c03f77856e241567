"""Serve the pages and run the updater as a child process. Both end together, even on kill -9."""

import logging
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

import uvicorn
from django.conf import settings
from django.core.management.base import CommandError, CommandParser
from django.db import DatabaseError
from django.utils.module_loading import import_string
from uvicorn.supervisors import Multiprocess

from annotation.management.base import ConcordCommand, UsageError
from annotation.management.schema import refuse_newer_database

log = logging.getLogger("concord.serve")

MAX_FRAME = 16_384
MEMORY_FOLDER = "/dev/shm"  # noqa: S108, the folders in it get random names
RESTART_SECONDS = 1.0
GRACE_SECONDS = 10  # to finish requests in progress when the server is stopped
PROCESS_SECONDS = 60  # for a web process to start or to answer its supervisor, also on a busy machine


class Command(ConcordCommand):
    help = (
        "Serves Concord on this machine and runs the updater in a child process. Both end together, by Ctrl-C or when "
        "the process is killed."
    )
    examples = ("serve", "serve --port 8080 --no-updater", "serve --no-updater --workers 2")

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--host", default="127.0.0.1", help="the address to listen on (default: 127.0.0.1)")
        parser.add_argument("--port", type=int, default=8000, help="the port to listen on (default: 8000)")
        parser.add_argument("--no-updater", action="store_true", help="do not run the updater")
        parser.add_argument(
            "--workers", type=int, default=1, help="the number of web processes (more than 1 only with DATABASE_URL)"
        )

    def runs_forever(self, **options: Any) -> bool:
        return True

    def handle(self, *args: Any, **options: Any) -> None:
        if options["workers"] < 1:
            raise UsageError("--workers must be 1 or more. Nothing was started.")
        if options["workers"] > 1 and settings.RATE_LIMITS == "memory":
            raise UsageError("Several web processes need PostgreSQL and Redis: set DATABASE_URL. Nothing was started.")
        with suppress(DatabaseError):  # while the database is unavailable, pages show a message
            refuse_newer_database()
        listener = listen(options["host"], options["port"])
        import_string(settings.COLLECT_STATIC)()
        if options["workers"] > 1:
            share_metrics()
        address = f"http://{options['host']}:{options['port']}"
        result = {"address": f"{address}/", "data": str(settings.DATA_DIR)}
        self.write_result(result, f"\nConcord is at {address}/ (Ctrl-C stops it). Data: {settings.DATA_DIR}\n")
        self.stdout.flush()
        with nullcontext() if options["no_updater"] else run_updater():
            serve(web_config(options["workers"]), listener)


def share_metrics() -> None:
    """Create an empty folder for the web processes' counts; prometheus_client reads its name from the environment.

    It is in memory, because prometheus_client maps its files: on a full disk a new count would kill the process.
    A link in the data folder leads to it, so that the next start can remove it.
    """
    link = settings.DATA_DIR / "metrics"
    shutil.rmtree(link.resolve(), ignore_errors=True)  # of the last start
    memory = os.access(MEMORY_FOLDER, os.W_OK)
    folder = tempfile.mkdtemp(prefix="concord-metrics-", dir=MEMORY_FOLDER if memory else settings.DATA_DIR)
    with suppress(OSError):  # the disk is full
        link.unlink(missing_ok=True)
        link.symlink_to(folder)
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder


def serve(config: uvicorn.Config, listener: socket.socket) -> None:
    """Serve in this process, or supervise several, until a signal arrives; then finish the requests that have begun."""
    if config.workers == 1:
        uvicorn.Server(config).run(sockets=[listener])
    else:
        WebProcesses(config, sockets=[listener]).run()


class WebProcesses(Multiprocess):
    """Several web processes that are restarted when they die."""

    def terminate_all(self) -> None:
        """Close the listening socket as well: otherwise new connections would wait until the last process ends."""
        for listener in self.sockets:
            listener.close()
        super().terminate_all()


def web_config(workers: int = 1) -> uvicorn.Config:
    return uvicorn.Config(
        "config.asgi:application",
        http="config.http_protocol:LimitedHttpProtocol",
        lifespan="off",
        log_config=None,  # settings.LOGGING
        server_header=False,
        proxy_headers=False,  # clients can forge X-Forwarded-For; use the address of the connection
        ws_max_size=MAX_FRAME,
        ws="websockets-sansio",
        timeout_graceful_shutdown=GRACE_SECONDS,
        timeout_worker_healthcheck=PROCESS_SECONDS,
        workers=workers,
    )


def listen(host: str, port: int) -> socket.socket:
    """Open the listening socket, before anything else is started or printed.

    asyncio turns Nagle's algorithm off only for sockets that were made with the protocol number of TCP. Without it a
    response of two packets waits 40 ms for the client's delayed acknowledgement.
    """
    try:
        listener = socket.create_server((host, port), backlog=2048)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # accepted connections inherit it
        return listener
    except OSError as error:
        hint = "choose another --port (make run PORT=...)"
        message = f"Cannot listen on {host}:{port} ({error.strerror}). Nothing was started; {hint}."
        raise CommandError(message) from None


@contextmanager
def run_updater() -> Iterator[None]:
    """Run an updater during this block; it also ends when this process is killed."""
    child = RestartedProcess([sys.executable, sys.argv[0], "update_models", "--with-parent"])
    try:
        yield
    finally:
        child.stop()


class RestartedProcess:
    """A child process that is restarted when it dies, until it is stopped."""

    def __init__(self, command: list[str]) -> None:
        self.command, self.stopping = command, threading.Event()
        self.process = self._start()
        threading.Thread(target=self._watch, daemon=True).start()

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self.command, stdin=subprocess.PIPE, start_new_session=True)  # noqa: S603

    def _watch(self) -> None:
        while True:
            self.process.wait()
            if self.stopping.wait(timeout=RESTART_SECONDS):
                return
            log.warning("the updater ended unexpectedly; restarting it")
            self.process = self._start()

    def stop(self) -> None:
        self.stopping.set()
        self.process.terminate()
        self.process.wait(timeout=10)
