"""Serve the real application in this process on the test's own database."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from benchmarks.load.waiting import wait_until


@contextmanager
def serving(ws: str = "none") -> Iterator[int]:
    """Yield the port on 127.0.0.1 while the block runs."""
    from config.asgi import application

    server = uvicorn.Server(uvicorn.Config(application, port=0, lifespan="off", log_level="warning", ws=ws))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    wait_until(lambda: server.started, 120, "the server did not start")
    try:
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(timeout=60)
