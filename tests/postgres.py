"""A PostgreSQL server of one's own for tests: made here, and gone when this process ends."""

import atexit
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

ROOM = 2 * 2**30  # bytes; the whole suite leaves well below one gigabyte


def find_bin() -> Path | None:
    """The folder of the newest PostgreSQL server programs on this machine."""
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda p: int(p.parts[-3]), reverse=True)
    beside_path = shutil.which("initdb")
    return versions[0].parent if versions else Path(beside_path).parent if beside_path else None


def as_server_user(*command: object) -> list[str]:
    """PostgreSQL refuses to run as root: there it runs as the user that Debian makes for it."""
    words = [str(word) for word in command]
    return ["runuser", "-u", "postgres", "--", *words] if os.geteuid() == 0 else words


def roomy_memory() -> Path | None:
    """Where files live in memory, if there is room: what a test commits need not outlive the machine."""
    memory = Path("/dev/shm")
    return memory if memory.is_dir() and shutil.disk_usage(memory).free > ROOM else None


def start(bin_dir: Path) -> str:
    folder = Path(tempfile.mkdtemp(prefix="concord-postgres-", dir=roomy_memory()))
    if os.geteuid() == 0:
        os.chown(folder, pwd.getpwnam("postgres").pw_uid, -1)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    data = folder / "data"
    run(bin_dir / "initdb", "-D", data, "-U", "concord", "--auth=trust", "-E", "UTF8", "--locale=C")
    options = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1 -c max_connections=200"
    run(bin_dir / "pg_ctl", "-D", data, "-w", "-l", folder / "log", "-o", options, "start")
    atexit.register(stop, bin_dir, folder)
    return f"postgres://concord@127.0.0.1:{port}/postgres"


def stop(bin_dir: Path, folder: Path) -> None:
    run(bin_dir / "pg_ctl", "-D", folder / "data", "-m", "immediate", "stop")
    shutil.rmtree(folder, ignore_errors=True)


def run(*command: object) -> None:
    subprocess.run(as_server_user(*command), check=True, stdout=subprocess.DEVNULL, cwd="/")
