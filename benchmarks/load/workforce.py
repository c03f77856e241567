"""Many workers in threads who answer at planned times regardless of the server's speed (open loop) until stopped."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from benchmarks.load.client import LoadClient
from benchmarks.load.crowd import LoadReport, summarise
from benchmarks.load.installation import Installation
from benchmarks.load.send_log import SendLog

PATIENCE = 600
Pace = Callable[[Random], float]  # seconds between two answers of a worker


def uniform_pace(low: float, high: float) -> Pace:
    return lambda rng: rng.uniform(low, high)


def fixed_pace(seconds: float) -> Pace:
    return lambda rng: seconds


@dataclass(frozen=True)
class Sample:
    """An acknowledged answer: when it was planned, and the seconds from then to its receipt."""

    planned: float
    seconds: float


class Workforce:
    """Workers join at `joining_times` (seconds from the start) and then answer at the current `pace`."""

    def __init__(
        self,
        server: Installation,
        slug: str,
        joining_times: Sequence[float],
        seed: int,
        send_log: SendLog,
        client: type[LoadClient] = LoadClient,
    ) -> None:
        self.joining_times, self.pace = joining_times, uniform_pace(5, 10)
        self.clients = [
            client(server.port, slug, server.headers, seed * 100_000 + n, send_log) for n in range(len(joining_times))
        ]
        for client in self.clients:  # like static/judge/sender.js
            client.pauses, client.patience = (0.5 + client.rng.random() / 2, 20.0), PATIENCE
        self.samples, self.joins, self.planned = list[Sample](), list[float](), list[float]()
        self.errors = list[BaseException]()
        self._stopping, self._threads = threading.Event(), list[threading.Thread]()

    def start(self) -> None:
        began = time.perf_counter()
        for client, at in zip(self.clients, self.joining_times, strict=True):
            thread = threading.Thread(target=self._work, args=(client, began + at), daemon=True)
            self._threads.append(thread)
            thread.start()

    def stop(self) -> None:
        """Let the workers finish the answers that they are sending, then raise the first worker's error, if any."""
        self._stopping.set()
        for thread in self._threads:
            thread.join()
        if self.errors:
            raise self.errors[0]

    @property
    def acknowledged(self) -> int:
        return len(self.samples)

    def statuses(self) -> Counter[int]:
        return sum((client.stats.statuses for client in self.clients), Counter())

    def report(self, since: float, until: float, statuses: Counter[int], cpu_seconds: float) -> LoadReport:
        """Summarise the answers that were planned in this period, given in seconds of `time.perf_counter`."""
        found = sorted(1000 * sample.seconds for sample in self.samples if since <= sample.planned < until)
        return summarise(found, statuses, until - since, cpu_seconds)

    def offered(self, since: float, until: float) -> float:
        """How many answers a second were planned in this period."""
        return sum(since <= at < until for at in self.planned) / (until - since)

    def _work(self, client: LoadClient, joining_at: float) -> None:
        try:
            if not self._wait_until(joining_at):
                return
            client.join()
            self.joins.append(time.perf_counter() - joining_at)
            planned = time.perf_counter() + client.rng.random() * self.pace(client.rng)
            while self._wait_until(planned):
                self.planned.append(planned)
                if not client.answer_next():
                    return
                self.samples.append(Sample(planned, time.perf_counter() - planned))
                planned = max(planned + self.pace(client.rng), time.perf_counter())
        except BaseException as error:
            self.errors.append(error)
        finally:
            client.close()

    def _wait_until(self, moment: float) -> bool:
        """Wait until this moment; return False if the workers were stopped first."""
        return not self._stopping.wait(max(0.0, moment - time.perf_counter()))


def burst_times(workers: int, seconds: float) -> list[float]:
    """Joining times: half of the workers arrive evenly in the first quarter of the time, the others in the rest."""
    half = workers // 2
    early = [seconds / 4 * n / max(half, 1) for n in range(half)]
    return early + [seconds / 4 + 3 * seconds / 4 * n / max(workers - half, 1) for n in range(workers - half)]
