"""Where fits are computed: in this process, or by the processes of a Dask scheduler on other machines (docs/scale.md).

Those processes look up a function by its name, so all machines must run the same release; every task checks this. The
scheduler keeps the arguments of every task until its result is no longer needed, so that another process can repeat the
work of a lost one.
"""

import logging
import pickle
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from django.conf import settings

from modelling.crowdgppl import Executor, LocalExecutor
from modelling.training.snapshots import CODE_VERSION

if TYPE_CHECKING:
    from distributed import Client, Future

log = logging.getLogger("concord.executors")

MIN_LABELS = 400_000  # a fit to fewer is faster in one process (docs/scale.md)
CONNECT_SECONDS = 5.0
POLL_SECONDS = 5.0
PATIENCE = 120.0  # seconds without any process before the work is abandoned
RETRIES = 3  # for a task whose process was lost or ran out of memory
INLINE_BYTES = 500_000  # smaller values travel with every task
AHEAD = 2  # shards read ahead for each process


class NoProcesses(RuntimeError):
    """All processes of the scheduler were lost."""


class OtherRelease(RuntimeError):
    """A process of the scheduler runs another release."""


def get_executor(n_labels: int | None = None) -> Executor:
    """The executor for a fit to this many labels, or for several fits at once.

    If the scheduler does not answer or has no processes, the work is done in this process.
    """
    if not settings.DASK_SCHEDULER or (n_labels is not None and n_labels < MIN_LABELS):
        return LocalExecutor()
    try:
        client = connect(settings.DASK_SCHEDULER)
    except ImportError:
        log.error("DASK_SCHEDULER is set, but the package is missing: pip install 'concord[distributed]'")
        return LocalExecutor()
    except OSError as error:
        log.warning("the scheduler does not answer, computing in this process: %s", error)
        return LocalExecutor()
    executor = DaskExecutor(client)
    if not executor.n_processes:
        log.warning("the scheduler has no processes, computing in this process")
        return LocalExecutor()
    return executor


def connect(address: str) -> "Client":
    """Return this process's Dask client, reconnecting if it has lost its scheduler."""
    client = _connect(address)
    if client.status != "running":
        _connect.cache_clear()
        client = _connect(address)
    return client


@lru_cache(maxsize=1)
def _connect(address: str) -> "Client":
    from distributed import Client

    return Client(address, timeout=CONNECT_SECONDS, set_as_default=False)


class DaskExecutor:
    """Sends shards to the processes of a Dask scheduler; a handle is a future."""

    def __init__(self, client: "Client") -> None:
        self.client = client

    @property
    def n_processes(self) -> int:
        """The number of tasks that run at once."""
        return sum(self.client.nthreads().values())

    def share(self, value: Any) -> Any:
        if len(pickle.dumps(value)) < INLINE_BYTES:
            return value
        # Not scattered: a task's arguments are kept by the scheduler and survive the loss of every process.
        return self.client.submit(identity, value, pure=False)

    def map(self, function: Callable[..., Any], shards: Sequence[Any], *shared: Any) -> list["Future"]:
        return [self._submit(function, shard, *shared) for shard in shards]

    def gather(self, handles: Sequence["Future"]) -> list[Any]:
        self._wait(handles)
        return list(self.client.gather(handles))

    def stream(self, function: Callable[..., Any], shards: Iterable[Any], *shared: Any) -> Iterator[Any]:
        waiting: deque[Future] = deque()
        for shard in shards:
            waiting.append(self._submit(function, shard, *shared))
            if len(waiting) >= AHEAD * max(self.n_processes, 1):
                yield self.gather([waiting.popleft()])[0]
        while waiting:
            yield self.gather([waiting.popleft()])[0]

    def _submit(self, function: Callable[..., Any], *arguments: Any) -> "Future":
        return self.client.submit(run, CODE_VERSION, function, *arguments, pure=False, retries=RETRIES)

    def _wait(self, handles: Sequence["Future"]) -> None:
        """Wait for the results; raise NoProcesses if there has been no process for PATIENCE seconds."""
        from distributed import wait

        alone_since: float | None = None
        while True:
            try:
                with self.client.as_current():
                    wait(handles, timeout=POLL_SECONDS)
                return
            except TimeoutError:
                alone_since = None if self.n_processes else alone_since or time.monotonic()
            if alone_since is not None and time.monotonic() - alone_since > PATIENCE:
                raise NoProcesses("All processes of the scheduler were lost. The work will start again later.")


# Executed by the processes of the scheduler


def identity(value: Any) -> Any:
    return value


def run(release: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function; raise OtherRelease if the caller runs another release than this process."""
    if release != CODE_VERSION:
        raise OtherRelease(f"This process runs code version {CODE_VERSION}; the study needs {release}.")
    return function(*arguments)
