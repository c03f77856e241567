"""Open live pages without a browser: one process that holds many WebSockets and counts what they receive.

    python -m benchmarks.load.sockets PORT SLUG FILE

reads session cookies and headers from FILE (JSON), opens a socket for each cookie, prints a line of JSON every second
and reconnects after a close, as pages do.
"""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

from benchmarks.load.installation import ROOT, Installation, die_with_parent

RECONNECT_SECONDS = 1.0
PER_USER = 5  # sockets of one user in one web process
SESSIONS = """
import json
from importlib import import_module
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from annotation.models import Membership, Project, User
project, cookies = Project.objects.get(slug={slug!r}), []
for number in range({users}):
    user = User.objects.create_user(f"{name}-{{number}}")
    Membership.objects.create(project=project, user=user, role="viewer")
    session = import_module(settings.SESSION_ENGINE).SessionStore()
    session[SESSION_KEY], session[HASH_SESSION_KEY] = user.pk, user.get_session_auth_hash()
    session[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
    session.save()
    cookies.append(f"{{settings.SESSION_COOKIE_NAME}}={{session.session_key}}")
print(json.dumps(cookies))
"""


@dataclass
class Watching:
    """Counts of what all sockets have received."""

    open: int = 0
    messages: int = 0
    connections: int = 0
    closed: int = 0
    went_back: int = 0  # messages with an older version than the one before
    newest: dict[int, int] = field(default_factory=dict)  # the newest version, by number of the socket

    def as_line(self) -> str:
        versions = list(self.newest.values())
        facts = {"open": self.open, "messages": self.messages, "connections": self.connections, "closed": self.closed}
        facts["went_back"] = self.went_back
        facts |= {"oldest_version": min(versions, default=0), "newest_version": max(versions, default=0)}
        return json.dumps({**facts, "cpu_seconds": round(time.process_time(), 2)})


async def watch(port: int, slug: str, cookies: list[str], headers: dict[str, str]) -> None:
    watching = Watching()
    tasks = [asyncio.create_task(hold(n, port, slug, cookie, headers, watching)) for n, cookie in enumerate(cookies)]
    while tasks:
        sys.stdout.write(watching.as_line() + "\n")
        sys.stdout.flush()
        await asyncio.sleep(1)


async def hold(number: int, port: int, slug: str, cookie: str, headers: dict[str, str], watching: Watching) -> None:
    """Keep one socket open forever, reconnecting after a close."""
    address, origin = f"ws://127.0.0.1:{port}/ws/projects/{slug}/", headers["Origin"]
    sent = {**{name: value for name, value in headers.items() if name != "Origin"}, "Cookie": cookie}
    while True:
        try:
            async with connect(address, origin=origin, additional_headers=sent, compression=None) as socket:  # type: ignore[arg-type]
                watching.open += 1
                watching.connections += 1
                try:
                    async for message in socket:
                        watching.messages += 1
                        version = json.loads(message)["revision"]
                        watching.went_back += version < watching.newest.get(number, 0)
                        watching.newest[number] = version
                finally:
                    watching.open -= 1
                    watching.closed += 1
        except (OSError, WebSocketException, TimeoutError):
            pass
        await asyncio.sleep(RECONNECT_SECONDS)


class Viewers:
    """The process that holds the sockets."""

    def __init__(self, server: Installation, slug: str, count: int, name: str) -> None:
        made = server.run_python(SESSIONS.format(slug=slug, users=-(-count // PER_USER), name=name))
        cookies = [cookie for cookie in json.loads(made.strip().splitlines()[-1]) for _ in range(PER_USER)][:count]
        file = server.folder / f"{name}s.json"
        file.write_text(json.dumps({"cookies": cookies, "headers": server.headers}))
        self.output = server.folder / f"{name}s.out"
        command = [sys.executable, "-m", "benchmarks.load.sockets", str(server.port), slug, str(file)]
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(command, cwd=ROOT, stdout=output, preexec_fn=die_with_parent)

    def state(self) -> dict[str, Any]:
        """The counts in the last complete line that the process printed."""
        lines = self.output.read_text().splitlines(keepends=True)
        whole = [line for line in lines if line.endswith("\n")]
        return json.loads(whole[-1]) if whole else {"open": 0, "messages": 0, "cpu_seconds": 0.0, "oldest_version": 0}

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


@contextmanager
def viewers(server: Installation, slug: str, count: int, name: str = "viewer") -> Iterator[Viewers]:
    """Hold `count` sockets while the block runs, for users named `name` and a number."""
    found = Viewers(server, slug, count, name)
    try:
        yield found
    finally:
        found.end()


if __name__ == "__main__":
    facts = json.loads(Path(sys.argv[3]).read_text())
    asyncio.run(watch(int(sys.argv[1]), sys.argv[2], facts["cookies"], facts["headers"]))
