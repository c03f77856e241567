"""Serve an application in this process, Concord on the test's own database if no other is given."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from benchmarks.load.waiting import wait_until


@contextmanager
def serving(application: Any = "config.asgi:application", ws: str = "none", **options: Any) -> Iterator[int]:
    """Yield the port on 127.0.0.1 while the block runs."""
    with running(uvicorn.Config(application, lifespan="off", log_config=None, ws=ws, **options)) as port:
        yield port


@contextmanager
def running(config: uvicorn.Config) -> Iterator[int]:
    """Run a server with this configuration on a free port and yield the port."""
    config.port = 0
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    wait_until(lambda: server.started, 120, "the server did not start")
    try:
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(timeout=120)
