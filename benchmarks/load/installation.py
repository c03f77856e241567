"""A real Concord in its own folder: `manage.py serve` as a child process that can be killed and restarted."""

import atexit
import ctypes
import fcntl
import http.client
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from random import SystemRandom
from types import TracebackType

from benchmarks.load.database import has_tables
from benchmarks.load.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
PR_SET_PDEATHSIG = 1
PORTS = (20_000, 32_000)
TEMPLATE_VARIABLE = "CONCORD_TEMPLATE"
STATIC_FILES = "staticfiles"
START_SECONDS, END_SECONDS, COMMAND_SECONDS = 300, 120, 900


class Installation:
    """The embedded profile in `folder`; with a postgres:// URL, the server profile behind a TLS proxy."""

    def __init__(self, folder: Path, database_url: str = "", redis_url: str = "redis://127.0.0.1:1/0") -> None:
        self.folder, self.database_url, self.redis_url = folder, database_url, redis_url
        self.database: Path | str = database_url or folder / "concord.sqlite3"
        self.log = folder / "server.log"
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None
        self.children: set[int] = set()
        self.variables: dict[str, str] = {}  # further environment variables

    def __enter__(self) -> "Installation":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.kill()
        for pid in self.children:
            if is_alive(pid):
                os.kill(pid, signal.SIGKILL)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def headers(self) -> dict[str, str]:
        """The headers that a browser, or the proxy in front of the server, adds to every request."""
        if not self.database_url:
            return {"Origin": f"http://127.0.0.1:{self.port}"}
        return {"Origin": f"https://127.0.0.1:{self.port}", "X-Forwarded-Proto": "https"}

    def environment(self) -> dict[str, str]:
        variables = {"PATH": os.environ["PATH"], "CONCORD_DATA": str(self.folder), "OMP_NUM_THREADS": "1"}
        if self.database_url:
            variables |= {"DATABASE_URL": self.database_url, "REDIS_URL": self.redis_url}
            variables |= {"ALLOWED_HOSTS": "127.0.0.1"}
        return variables | self.variables

    def manage(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a manage.py command and return its exit code and output."""
        command = [sys.executable, "manage.py", *arguments]
        options = {"env": self.environment(), "cwd": ROOT, "timeout": COMMAND_SECONDS}
        return subprocess.run(command, capture_output=True, text=True, **options)

    def prepare(self, slug: str, **fields: int) -> None:
        """Create the tables and an open study with these sizes."""
        self.create_tables()
        self.run_python(f"from benchmarks.load.study import make_study; make_study({slug!r}, **{fields!r})")

    def create_tables(self) -> None:
        """Copy empty tables and static files from the template; migrate a PostgreSQL database that has no tables."""
        template = template_folder()
        shutil.copytree(template / STATIC_FILES, self.folder / STATIC_FILES)
        if not self.database_url:
            shutil.copy(template / "concord.sqlite3", self.folder)
        elif not has_tables(self.database_url):
            self.run_command("migrate", "--verbosity", "0")

    def run_python(self, statements: str) -> str:
        """Run Python statements in a process of this installation and return their output."""
        return self.run_command("shell", "--no-imports", "-c", statements)

    def run_command(self, *arguments: str) -> str:
        """Run a manage.py command and return its output; raise an error if it fails."""
        done = self.manage(*arguments)
        if done.returncode:
            raise RuntimeError(done.stderr)
        return done.stdout

    def start(self, *options: str, wrapper: tuple[str, ...] = ()) -> float:
        """Start the server, wait until it responds, and return how many seconds that took."""
        command = [*wrapper, sys.executable, "manage.py", "serve", "--port", str(self.port), *options]
        with self.log.open("ab") as log:
            options = {"env": self.environment(), "cwd": ROOT, "stdout": log, "stderr": log}
            self.process = subprocess.Popen(command, **options, start_new_session=True, preexec_fn=die_with_parent)
        return wait_until(self.is_ready, START_SECONDS, "the server did not respond")

    def is_ready(self) -> bool:
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
        """CPU seconds of the web process so far, without its children."""
        return process_cpu_seconds(self.process.pid) if self.process else 0.0

    def updater_cpu_seconds(self) -> float:
        """CPU seconds of the living child processes so far."""
        return sum(map(process_cpu_seconds, descendants(self.process.pid))) if self.process else 0.0

    def kill(self) -> None:
        """Kill the server with SIGKILL: no handler runs, nothing is flushed."""
        if self.process is None:
            return
        self.children |= descendants(self.process.pid)
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.process = None

    def wait_for_children(self) -> None:
        """Wait until the killed servers' child processes have ended on their own."""
        wait_until(lambda: not any(map(is_alive, self.children)), END_SECONDS, "a child outlived its server")

    def start_updater(self, *, faults: str = "", wrapper: tuple[str, ...] = ()) -> subprocess.Popen[bytes]:
        """Start `manage.py update_models` in addition to a server without an updater."""
        variables = self.environment() | ({"FAULTS": faults, "CONCORD_DRILL": "1"} if faults else {})
        command = [*wrapper, sys.executable, "manage.py", "update_models"]
        with self.log.open("ab") as log:
            options = {"env": variables, "cwd": ROOT, "stdout": log, "stderr": log}
            return subprocess.Popen(command, **options, preexec_fn=die_with_parent)

    def verify(self) -> tuple[bool, str]:
        """Run `manage.py verify`; return whether it passed, and its output."""
        done = self.manage("verify")
        return done.returncode == 0, (done.stdout + done.stderr).strip()


def template_folder() -> Path:
    """Return a data folder with empty tables and collected static files.

    Creating it takes seconds, so it is created once: for this process, or for all processes of a test run that share
    the folder named by CONCORD_TEMPLATE.
    """
    shared = Path(os.environ.get(TEMPLATE_VARIABLE) or _own_folder())
    with exclusive_lock(shared / "lock"):
        made = shared / "template"
        if not made.exists():
            draft = Installation(Path(tempfile.mkdtemp(dir=shared)))
            draft.run_command("migrate", "--verbosity", "0")
            draft.run_python("from config.static_files import collect; collect()")
            draft.folder.rename(made)
    return made


@cache
def _own_folder() -> str:
    folder = tempfile.mkdtemp(prefix="concord-template-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@contextmanager
def exclusive_lock(path: Path) -> Iterator[None]:
    """Hold a lock that excludes other processes."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def die_with_parent() -> None:
    """Ask Linux to kill this process when its parent ends."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def free_port() -> int:
    """Return a free port below the ephemeral range, so that no outgoing connection takes it during a restart."""
    while True:
        port = SystemRandom().randrange(*PORTS)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def descendants(pid: int) -> set[int]:
    """Return the living child processes of `pid` and their children."""
    found: set[int] = set()
    for listing in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found |= {int(child) for child in listing.read_text().split()}
        except OSError:
            continue
    return found | {below for child in found for below in descendants(child)}


def process_cpu_seconds(pid: int) -> float:
    """CPU seconds of one process; 0 if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def machine_cpu_seconds() -> float:
    """CPU seconds of all processes on this machine, plus the time stolen by its host."""
    user, nice, system, _idle, _waiting, *rest = map(int, Path("/proc/stat").read_text().split("\n")[0].split()[1:9])
    return (user + nice + system + sum(rest)) / os.sysconf("SC_CLK_TCK")


def is_alive(pid: int) -> bool:
    """Return whether the process exists and is not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
