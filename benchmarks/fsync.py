"""Is an answer on the disk before it is acknowledged (P2)? Counts fsyncs of the web process by strace, post by post.

`strace` writes down every sync of the web process and every answer it sends. A post is safe when at least one sync
lies between the end of the answer before it and its own. Also reads the settings that decide it, on SQLite.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness import arguments, publish
from tests.drills.client import Client
from tests.drills.install import Install

NAME, SLUG = "fsync", "fsync"
SYNC = re.compile(r"(fsync|fdatasync)\(.*= 0|<\.\.\. (fsync|fdatasync) resumed.*= 0")
ANSWER = re.compile(r"(sendto|write|writev|sendmsg)\(.*HTTP/1\.1 (\d{3})")
CALLS = "trace=fsync,fdatasync,sendto,sendmsg,write,writev"
READ_PRAGMA = (
    "from django.db import connection; c = connection.cursor(); "
    "print(*(c.execute('PRAGMA ' + name).fetchone()[0] for name in ('synchronous', 'journal_mode')))"
)


def main(argv: Sequence[str] | None = None) -> None:
    """Prints how many of the sequential posts were synced before their answer was sent."""
    options = arguments(__doc__).parse_args(argv)
    if shutil.which("strace") is None:
        publish(NAME, {"skipped": True, "reason": "strace is not installed"}, options)
        return
    publish(NAME, measure(posts=10 if options.quick else 100), options)


def measure(posts: int) -> dict[str, Any]:
    """One worker answers `posts` times, one after the other, on a fresh install."""
    with tempfile.TemporaryDirectory(prefix="concord-fsync-") as folder, Install(Path(folder)) as install:
        install.prepare(SLUG, items=40)
        trace = install.folder / "trace"
        install.start("--no-updater", wrapper=("strace", "-f", "-s", "20", "-e", CALLS, "-o", str(trace)))
        client = Client(install.port, SLUG, install.headers, seed=1)
        client.join()
        answered = sum(client.answer_next() for _ in range(posts))
        install.kill()
        synchronous, journal = install.manage("shell", "--no-imports", "-c", READ_PRAGMA).stdout.split()
        syncs = syncs_before_each_answer(trace.read_text(errors="replace").splitlines(), status="201")
    return {
        "posts": answered,
        "synced_before_the_answer": sum(count > 0 for count in syncs),
        "syncs_per_post": sum(syncs) / max(len(syncs), 1),
        "settings": {"synchronous": int(synchronous), "journal_mode": journal},
        "passed": len(syncs) == posts and min(syncs, default=0) > 0 and synchronous == "2",
    }


def syncs_before_each_answer(lines: Iterable[str], status: str) -> list[int]:
    """For each answer of this status, how many syncs ended after the answer before it."""
    counts, since = [], 0
    for line in lines:
        if SYNC.search(line):
            since += 1
        elif answer := ANSWER.search(line):
            if answer[2] == status:
                counts.append(since)
            since = 0
    return counts


if __name__ == "__main__":
    main()
