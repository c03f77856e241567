"""A Dask scheduler and its workers as child processes on this machine; a worker can be killed."""

import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

from benchmarks.load.installation import ROOT, free_port

START_SECONDS = 120


class Cluster:
    """A scheduler and `n_workers` workers, prepared as docs/scale.md says."""

    def __init__(self, n_workers: int = 2) -> None:
        self.n_workers, self.address = n_workers, f"tcp://127.0.0.1:{free_port()}"
        self.workers: list[subprocess.Popen[bytes]] = []
        self._exit = ExitStack()

    def __enter__(self) -> "Cluster":
        from distributed import Client

        self.folder = Path(self._exit.enter_context(tempfile.TemporaryDirectory()))
        port = self.address.rpartition(":")[2]
        self._start("scheduler", "--host", "127.0.0.1", "--port", port)
        self.client = self._exit.enter_context(Client(self.address, timeout=START_SECONDS, set_as_default=False))
        for _ in range(self.n_workers):
            self.add_worker()
        self.client.wait_for_workers(self.n_workers, timeout=START_SECONDS)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._exit.close()

    def add_worker(self) -> None:
        """Start one more worker; it registers a few seconds later."""
        options = ("--nthreads", "1", "--no-nanny", "--local-directory", str(self.folder))
        self.workers.append(self._start("worker", self.address, *options))

    def kill_worker(self) -> None:
        """Kill the oldest worker before it can notify the scheduler."""
        worker = self.workers.pop(0)
        worker.kill()
        worker.wait()

    def cpu_seconds(self) -> dict[str, float]:
        """CPU seconds of each worker so far."""
        from time import process_time

        return dict(self.client.run(process_time))

    def _start(self, kind: str, *options: str) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", "dask", kind, *options, "--no-dashboard", "--preload", "config.dask"]
        environment: dict[str, Any] = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
        environment.pop("DJANGO_SETTINGS_MODULE", None)
        log = self._exit.enter_context((self.folder / f"{kind}.log").open("ab"))
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)
        self._exit.callback(process.wait)
        self._exit.callback(process.kill)
        return process
