"""A real Concord in a folder of its own: `manage.py serve` as a child that can be killed and started again."""

import atexit
import ctypes
import http.client
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from types import TracebackType

from tests.drills.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
PR_SET_PDEATHSIG = 1
START_SECONDS, END_SECONDS, COMMAND_SECONDS = 60, 20, 600


class Install:
    """The embedded profile in `folder`; with a postgres:// address, the server profile as seen through a TLS proxy."""

    def __init__(self, folder: Path, database_url: str = "") -> None:
        self.folder, self.database_url = folder, database_url
        self.database: Path | str = database_url or folder / "concord.sqlite3"
        self.log = folder / "server.log"
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None
        self.children: set[int] = set()

    def __enter__(self) -> "Install":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.kill()
        for pid in self.children:
            if is_alive(pid):
                os.kill(pid, signal.SIGKILL)

    @property
    def headers(self) -> dict[str, str]:
        """What a browser, or the proxy in front, adds to every request."""
        if not self.database_url:
            return {"Origin": f"http://127.0.0.1:{self.port}"}
        return {"Origin": f"https://127.0.0.1:{self.port}", "X-Forwarded-Proto": "https"}

    def environment(self) -> dict[str, str]:
        given = {"PATH": os.environ["PATH"], "CONCORD_DATA": str(self.folder), "OMP_NUM_THREADS": "1"}
        if self.database_url:
            given |= {"DATABASE_URL": self.database_url, "REDIS_URL": "redis://127.0.0.1:1/0"}
            given |= {"ALLOWED_HOSTS": "127.0.0.1"}
        return given

    def manage(self, *words: str) -> subprocess.CompletedProcess[str]:
        """What a command of manage.py answered."""
        command = [sys.executable, "manage.py", *words]
        options = {"env": self.environment(), "cwd": ROOT, "timeout": COMMAND_SECONDS}
        return subprocess.run(command, capture_output=True, text=True, **options)

    def prepare(self, slug: str, **fields: int) -> None:
        """The tables are there, and an open study with these numbers."""
        call = f"from tests.drills.study import make_study; make_study({slug!r}, **{fields!r})"
        if self.database_url:
            self.do("migrate", "--verbosity", "0")
        else:
            shutil.copy(empty_tables(), self.database)
        self.do("shell", "--no-imports", "-c", call)

    def do(self, *words: str) -> str:
        """What a command of manage.py said that must go well."""
        done = self.manage(*words)
        if done.returncode:
            raise RuntimeError(done.stderr)
        return done.stdout

    def start(self, *options: str, wrapper: tuple[str, ...] = ()) -> float:
        """The server answers; returns how many seconds that took."""
        command = [*wrapper, sys.executable, "manage.py", "serve", "--port", str(self.port), *options]
        with self.log.open("ab") as log:
            options = {"env": self.environment(), "cwd": ROOT, "stdout": log, "stderr": log}
            self.process = subprocess.Popen(command, **options, start_new_session=True, preexec_fn=die_with_parent)
        return wait_until(self.answers, START_SECONDS, "the server did not answer")

    def answers(self) -> bool:
        if self.process is not None and self.process.poll() is not None:
            raise RuntimeError(f"The server ended: {self.log.read_text()[-2000:]}")
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request("GET", "/healthz")
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()

    def cpu_seconds(self) -> float:
        """What the web process, without its children, has spent so far."""
        return spent_by(self.process.pid) if self.process else 0.0

    def cpu_seconds_of_children(self) -> float:
        """What those that live have spent so far: the updater."""
        return sum(map(spent_by, children_of(self.process.pid))) if self.process else 0.0

    def kill(self) -> None:
        """kill -9: no handler runs, nothing is flushed."""
        if self.process is None:
            return
        self.children |= children_of(self.process.pid)
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.process = None

    def wait_for_children(self) -> None:
        """Whatever the killed servers had started has ended by itself."""
        wait_until(lambda: not any(map(is_alive, self.children)), END_SECONDS, "a child outlived its server")

    def verify(self) -> tuple[bool, str]:
        """Whether `manage.py verify` finds all well, and what it said."""
        done = self.manage("verify")
        return done.returncode == 0, (done.stdout + done.stderr).strip()


@cache
def empty_tables() -> Path:
    """A migrated SQLite file without rows, made once and copied: migrating takes five seconds."""
    folder = Path(tempfile.mkdtemp(prefix="concord-tables-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    install = Install(folder)
    install.do("migrate", "--verbosity", "0")
    return Path(install.database)


def die_with_parent() -> None:
    """Asks Linux to kill this process when the one that started it ends, however that ends."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def children_of(pid: int) -> set[int]:
    """The processes that this one's threads have started and that live."""
    found: set[int] = set()
    for listing in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found |= {int(word) for word in listing.read_text().split()}
        except OSError:
            continue
    return found | {below for child in found for below in children_of(child)}


def spent_by(pid: int) -> float:
    """CPU seconds of one process; 0 when it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def spent_by_all() -> float:
    """CPU seconds of everything on this machine, and those its host took away from it."""
    user, nice, system, _idle, _waiting, *rest = map(int, Path("/proc/stat").read_text().split("\n")[0].split()[1:9])
    return (user + nice + system + sum(rest)) / os.sysconf("SC_CLK_TCK")


def is_alive(pid: int) -> bool:
    """Neither gone nor waiting to be collected."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
