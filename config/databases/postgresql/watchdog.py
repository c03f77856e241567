"""A circuit breaker for PostgreSQL: open while the server does not respond, so that requests fail at once.

A frozen server accepts connections and never answers, and a query waits for it without limit. A query that has waited
for a moment therefore asks the watchdog to probe the server. Only if the probe fails as well does the circuit open;
a slow query on a healthy server is left alone. While the circuit is open, the watchdog probes until the server is back.
"""

import socket
from collections.abc import Callable
from threading import Event, Lock, Thread

PROBE_SECONDS = 0.6
PAUSE_SECONDS = 0.25
# The protocol's SSLRequest: every server answers it with one byte, without a log-in.
SSL_REQUEST = b"\x00\x00\x00\x08\x04\xd2\x16\x2f"


class Watchdog:
    """Probe the server on request; `is_open` is true while it does not respond."""

    def __init__(self) -> None:
        self.is_open = False
        self._address: tuple[str, int] | None = None
        self._on_recovery: Callable[[], None] = lambda: None
        self._wanted, self._lock = Event(), Lock()
        self._thread: Thread | None = None

    def watch(self, host: str, port: int, on_recovery: Callable[[], None]) -> None:
        """Set the server to probe, and the function to call when it responds again."""
        self._address, self._on_recovery = (host, port), on_recovery

    def suspect(self) -> None:
        """Ask the watchdog's thread to probe the server."""
        self._wanted.set()
        with self._lock:
            if self._address and (self._thread is None or not self._thread.is_alive()):  # threads do not survive a fork
                self._thread = Thread(target=self._run, name="database-watchdog", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while self._wanted.wait():
            self._wanted.clear()
            while not self._address or not responds(*self._address):
                self.is_open = True
                Event().wait(PAUSE_SECONDS)
            if self.is_open:
                self.is_open = False
                self._on_recovery()


def responds(host: str, port: int) -> bool:
    """Whether any of the comma-separated hosts responds in time."""
    return any(_responds(name, port) for name in host.split(","))


def _responds(host: str, port: int) -> bool:
    unix = host.startswith("/")
    try:
        with socket.socket(socket.AF_UNIX) if unix else socket.create_connection((host, port), PROBE_SECONDS) as probe:
            probe.settimeout(PROBE_SECONDS)
            if unix:
                probe.connect(f"{host}/.s.PGSQL.{port}")
            probe.sendall(SSL_REQUEST)
            return bool(probe.recv(1))
    except OSError:
        return False


watchdog = Watchdog()
