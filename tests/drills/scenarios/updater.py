"""A real `manage.py update_models` on the test's own database that can be killed, stopped and given faults."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType

from django.conf import settings
from django.db import connection

from benchmarks.load.installation import ROOT, die_with_parent

POINTS = ("read_labels", "after_fit", "write_tmp", "fsync", "rename", "before_pointer", "after_publish")
IN_FILES = ("write_tmp", "fsync", "rename")  # only where arrays are stored in files


class Updater:
    """One updater process on the test's data folder and database."""

    def __init__(self, faults: str = "", wrapper: tuple[str, ...] = ()) -> None:
        self.faults, self.wrapper = faults, wrapper
        self.log = Path(settings.DATA_DIR) / "updater.log"

    def __enter__(self) -> "Updater":
        command = [*self.wrapper, sys.executable, "manage.py", "update_models", "--nice", "0"]
        with self.log.open("ab") as log:
            options = {"env": environment(self.faults), "cwd": ROOT, "stdout": log, "stderr": log}
            self.process = subprocess.Popen(command, **options, preexec_fn=die_with_parent)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.kill()

    @property
    def has_ended(self) -> bool:
        return self.process.poll() is not None

    @property
    def is_stopped(self) -> bool:
        return self._status("State").startswith("T")

    def megabytes(self, field: str) -> float:
        """Read VmHWM (peak resident memory) or VmPeak (peak address space)."""
        return float(self._status(field).split()[0]) / 1024

    def _status(self, field: str) -> str:
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return dict(line.split(":", 1) for line in lines)[field].strip()

    def send(self, number: signal.Signals) -> None:
        os.kill(self.process.pid, number)

    def kill(self) -> None:
        """Send SIGKILL, which also ends a stopped process."""
        if not self.has_ended:
            self.send(signal.SIGKILL)
            self.process.wait()


def environment(faults: str = "") -> dict[str, str]:
    """Return the variables of the profile that uses the test's database."""
    variables = {"PATH": os.environ["PATH"], "OMP_NUM_THREADS": "1", "CONCORD_DATA": str(settings.DATA_DIR)}
    if faults:
        variables |= {"FAULTS": faults, "CONCORD_DRILL": "1"}
    database = connection.settings_dict
    if connection.vendor == "postgresql":
        address = f"{database['USER']}@{database['HOST']}:{database['PORT']}/{database['NAME']}"
        variables |= {"DATABASE_URL": f"postgres://{address}", "REDIS_URL": "redis://127.0.0.1:1/0"}
        return variables | {"ALLOWED_HOSTS": "127.0.0.1", "SECRET_KEY": settings.SECRET_KEY}
    link = Path(settings.DATA_DIR) / "concord.sqlite3"
    if not link.exists():
        link.symlink_to(database["NAME"])
    return variables


def store_arrays_like_the_updater() -> None:
    """Make this process read arrays where the updater stores them: files with SQLite, a table with PostgreSQL."""
    settings.FILE_STORAGE = "table" if connection.vendor == "postgresql" else "files"
