"""PostgreSQL and Redis servers on this machine that can be killed, frozen and started again."""

import atexit
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.load.installation import descendants, die_with_parent, free_port, is_alive
from benchmarks.load.waiting import wait_until

SECONDS = 300
CONNECTIONS = "-c listen_addresses=127.0.0.1 -c max_connections=200"
# Data committed by tests need not survive a crash of the machine.
NOT_DURABLE = "-c fsync=off -c full_page_writes=off"
NEEDED_BYTES = 2 * 2**30  # the whole test suite leaves well below one gigabyte


def find_postgres() -> Path | None:
    """Return the folder of the newest PostgreSQL server programs on this machine."""
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda p: int(p.parts[-3]), reverse=True)
    on_path = shutil.which("initdb")
    return versions[0].parent if versions else Path(on_path).parent if on_path else None


class PostgresServer:
    """A PostgreSQL server in a folder of its own; `durable` syncs every commit to the disk, as in production."""

    def __init__(self, programs: Path, *, durable: bool = False) -> None:
        self.programs, self.durable, self.port = programs, durable, free_port()
        self.folder = Path(tempfile.mkdtemp(prefix="concord-postgres-", dir=None if durable else memory_folder()))
        self.data = self.folder / "data"
        if os.geteuid() == 0:
            os.chown(self.folder, pwd.getpwnam("postgres").pw_uid, -1)
        options = ["-U", "concord", "--auth=trust", "-E", "UTF8", "--locale=C", *([] if durable else ["--no-sync"])]
        self._run("initdb", "-D", self.data, *options)

    @property
    def url(self) -> str:
        return f"postgres://concord@127.0.0.1:{self.port}/postgres"

    @property
    def pid(self) -> int:
        """The process id of the first server process, the parent of all others."""
        return int((self.data / "postmaster.pid").read_text().split()[0])

    def start(self) -> None:
        options = f"-p {self.port} -k {self.folder} {CONNECTIONS} {'' if self.durable else NOT_DURABLE}"
        self._run("pg_ctl", "-D", self.data, "-w", "-t", SECONDS, "-l", self.folder / "log", "-o", options, "start")

    def kill(self) -> None:
        """Kill the first process with SIGKILL; the others end when they notice its death."""
        processes = {self.pid, *descendants(self.pid)}
        os.kill(self.pid, signal.SIGKILL)
        wait_until(lambda: not any(map(is_alive, processes)), SECONDS, "a PostgreSQL process did not end")

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Stop all processes while the block runs: the server accepts connections and never answers."""
        processes = [self.pid, *descendants(self.pid)]
        for process in processes:
            os.kill(process, signal.SIGSTOP)
        try:
            yield
        finally:
            for process in processes:
                os.kill(process, signal.SIGCONT)

    def remove(self) -> None:
        """Stop the server and delete its data."""
        if (self.data / "postmaster.pid").exists() and is_alive(self.pid):
            self._run("pg_ctl", "-D", self.data, "-m", "immediate", "stop")
        shutil.rmtree(self.folder, ignore_errors=True)

    def _run(self, program: str, *arguments: object) -> None:
        command = [str(self.programs / program), *map(str, arguments)]
        if os.geteuid() == 0:  # PostgreSQL refuses to run as root
            command = ["runuser", "-u", "postgres", "--", *command]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd="/")


def memory_folder() -> Path | None:
    """Return a folder in memory if there is enough space."""
    memory = Path("/dev/shm")
    return memory if memory.is_dir() and shutil.disk_usage(memory).free > NEEDED_BYTES else None


def start_postgres(programs: Path, *, durable: bool = False) -> PostgresServer:
    """Start a server that is removed when this process ends."""
    server = PostgresServer(programs, durable=durable)
    server.start()
    atexit.register(server.remove)
    return server


class RedisServer:
    """A Redis server without persistence, which can be killed and started again on the same port."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        command = ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen(command, cwd=self.folder, preexec_fn=die_with_parent, **quiet)
        wait_until(self.is_ready, SECONDS, "Redis did not start")

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def is_ready(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(16).startswith(b"+PONG")
        except OSError:
            return False
