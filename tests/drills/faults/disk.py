"""D6: the disk is full while versions are written and answers committed.

The drill runs in a mount namespace of its own, in which the temporary folder is a small file system in memory.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.load.installation import ROOT, is_alive
from tests.drills.faults.frame import LOG_FOLDER, Run

SMALL = "DRILL_SMALL_DISK"  # set in the namespace
MOST_SECONDS = 120  # a busy machine answers slowly
SIZE = "400m"  # PostgreSQL needs about 100 MB when it is empty
MOUNT = 'mount -t tmpfs -o size="$1",mode=755 tmpfs "$2" && shift 2 && exec "$@"'


def is_small() -> bool:
    return SMALL in os.environ


def run_in_small_file_system(arguments: list[str]) -> str:
    """Run this program's command line with a small temporary folder; return its output."""
    with tempfile.TemporaryDirectory(prefix="concord-logs-") as logs, tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "tests.drills.faults", *arguments]
        wrapper = ["unshare", "--mount", "sh", "-c", MOUNT, "sh", SIZE, folder]
        if os.geteuid() != 0:
            wrapper[1:1] = ["--map-root-user"]
        variables = os.environ | {"TMPDIR": folder, LOG_FOLDER: logs, SMALL: "1"}
        variables.pop("CONCORD_TEMPLATE", None)
        done = subprocess.run([*wrapper, *command], env=variables, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    return done.stdout


def disk_full(run: Run) -> None:
    """D6: fill the disk, and free it again; refused answers are sent again, and the database is whole."""
    filler = Path(tempfile.gettempdir()) / "filler"
    statuses = run.statuses_during(lambda: fill_for(run, filler))
    run.figures["statuses_while_full"] = statuses
    run.expect(set(statuses) <= {0, 200, 201, 429, 503}, f"answers failed otherwise than with 503: {statuses}")
    run.expect(503 in statuses, "no answer was refused with 503")
    if run.server.database_url and not is_running(run):
        run.stack.postgres.start()  # as systemd does; PostgreSQL stops if it cannot write its log
    run.expect_within(30, "first_answer_seconds", run.seconds_to_next_answer())
    if run.server.database_url:
        run.figures["restarted"] = run.stack.restart_ended()
    left = list(run.server.folder.glob("snapshots/*/*.tmp"))
    run.expect(not left, f"{len(left)} temporary files were left")


def fill_for(run: Run, filler: Path) -> None:
    """Fill the disk, also what is freed meanwhile, while the fault lasts, or longer until an answer was refused."""
    refused, began = run.workforce.statuses()[503], time.monotonic()

    def is_over() -> bool:
        seconds = time.monotonic() - began
        return seconds > MOST_SECONDS or (seconds > run.frame.fault and run.workforce.statuses()[503] > refused)

    with filler.open("wb", buffering=0) as file:
        while not is_over():
            size = shutil.disk_usage(filler.parent).free
            try:
                while size > 0:
                    size -= file.write(b"\0" * min(size, 2**20))
            except OSError:
                pass
            run.pause(0.1)
    filler.unlink()


def is_running(run: Run) -> bool:
    pid = run.stack.postgres.data / "postmaster.pid"
    return pid.exists() and is_alive(run.stack.postgres.pid)
