"""Check that every answer is on the disk before it is acknowledged, by tracing the web process with strace.

`strace` records every sync and every response of the web process. A post is safe when at least one sync lies between
the previous response and its own. Also reads the SQLite settings that control syncing.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness import arguments, publish
from benchmarks.load.client import LoadClient
from benchmarks.load.installation import Installation

NAME, SLUG = "fsync", "fsync"
SYNC = re.compile(r"(fsync|fdatasync)\(.*= 0|<\.\.\. (fsync|fdatasync) resumed.*= 0")
RESPONSE = re.compile(r"(sendto|write|writev|sendmsg)\(.*HTTP/1\.1 (\d{3})")
CALLS = "trace=fsync,fdatasync,sendto,sendmsg,write,writev"
READ_PRAGMA = (
    "from django.db import connection; c = connection.cursor(); "
    "print(*(c.execute('PRAGMA ' + name).fetchone()[0] for name in ('synchronous', 'journal_mode')))"
)


def main(argv: Sequence[str] | None = None) -> None:
    """Count how many sequential posts were synced before their response was sent."""
    options = arguments(__doc__).parse_args(argv)
    if shutil.which("strace") is None:
        publish(NAME, {"skipped": True, "reason": "strace is not installed"}, options)
        return
    publish(NAME, measure(posts=10 if options.quick else 100), options)


def measure(posts: int) -> dict[str, Any]:
    """Let one worker answer `posts` times on a new installation."""
    with tempfile.TemporaryDirectory(prefix="concord-fsync-") as folder, Installation(Path(folder)) as installation:
        installation.prepare(SLUG, items=40)
        trace = installation.folder / "trace"
        installation.start("--no-updater", wrapper=("strace", "-f", "-s", "20", "-e", CALLS, "-o", str(trace)))
        client = LoadClient(installation.port, SLUG, installation.headers, seed=1)
        client.join()
        answered = sum(client.answer_next() for _ in range(posts))
        installation.kill()
        synchronous, journal = installation.run_command("shell", "--no-imports", "-c", READ_PRAGMA).split()
        syncs = syncs_before_each_response(trace.read_text(errors="replace").splitlines(), status="201")
    return {
        "posts": answered,
        "synced_before_the_answer": sum(count > 0 for count in syncs),
        "syncs_per_post": sum(syncs) / max(len(syncs), 1),
        "settings": {"synchronous": int(synchronous), "journal_mode": journal},
        "passed": len(syncs) == posts and min(syncs, default=0) > 0 and synchronous == "2",
    }


def syncs_before_each_response(lines: Iterable[str], status: str) -> list[int]:
    """For each response with this status, count the syncs since the previous response."""
    counts, since = [], 0
    for line in lines:
        if SYNC.search(line):
            since += 1
        elif response := RESPONSE.search(line):
            if response[2] == status:
                counts.append(since)
            since = 0
    return counts


if __name__ == "__main__":
    main()
