"""Many clients at once, in threads, with one budget of answers and one count of what was acknowledged."""

import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

from tests.drills.client import Client
from tests.drills.install import Install
from tests.drills.ledger import Ledger


@dataclass(frozen=True)
class Report:
    """What the crowd saw. `cpu_share` is that of this process, in parts of one core."""

    answers: int
    seconds: float
    per_second: float
    p50_ms: float
    p95_ms: float
    p99_ms: float
    slowest_ms: float
    statuses: Mapping[int, int]
    cpu_share: float


class Crowd:
    """Closed loop: each client answers, waits for the acknowledgement, answers again, until the budget is spent.

    With a rate, all together begin no more than so many answers in a second.
    """

    def __init__(
        self, install: Install, slug: str, size: int, seed: int, ledger: Ledger | None = None, rate: float | None = None
    ) -> None:
        self.clients = [Client(install.port, slug, install.headers, seed * 1000 + n, ledger) for n in range(size)]
        self._budget = 0
        self._spending = threading.Lock()
        self._pause, self._moment = 1 / rate if rate else 0.0, 0.0

    @property
    def acknowledged(self) -> int:
        return sum(len(client.record.seconds) for client in self.clients)

    def join(self) -> None:
        """Every client is a worker of the study."""
        with ThreadPoolExecutor(len(self.clients)) as pool:
            for joining in [pool.submit(client.join) for client in self.clients]:
                joining.result()

    @contextmanager
    def answering(self, budget: int) -> Iterator["Crowd"]:
        """The crowd works in the background while the block runs; afterwards the budget is spent."""
        self._budget = budget
        with ThreadPoolExecutor(len(self.clients)) as pool:
            working = [pool.submit(self._work, client) for client in self.clients]
            try:
                yield self
            except BaseException:
                self._budget = 0
                raise
            for work in working:
                work.result()

    def stop(self) -> None:
        """Nobody starts another answer."""
        with self._spending:
            self._budget = 0

    def run(self, budget: int) -> Report:
        """The budget is spent; what the crowd saw."""
        began, cpu = time.perf_counter(), time.process_time()
        with self.answering(budget):
            pass
        return self.report(time.perf_counter() - began, time.process_time() - cpu)

    def report(self, seconds: float, cpu_seconds: float) -> Report:
        """The records of all clients in one."""
        records = [client.record for client in self.clients]
        milliseconds = sorted(1000 * each for record in records for each in record.seconds)
        return summary(milliseconds, sum((record.statuses for record in records), Counter()), seconds, cpu_seconds)

    def _work(self, client: Client) -> None:
        try:
            while self._take() and client.answer_next():
                pass
        finally:
            client.close()

    def _take(self) -> bool:
        with self._spending:
            self._budget -= 1
            self._moment = moment = max(self._moment + self._pause, time.perf_counter())
            going = self._budget >= 0
        if going and self._pause:
            time.sleep(max(0.0, moment - time.perf_counter()))
        return going


def summary(milliseconds: list[float], statuses: Counter[int], seconds: float, cpu_seconds: float) -> Report:
    """Percentiles of sorted times, rates and shares, rounded for reading."""
    return Report(
        answers=len(milliseconds),
        seconds=round(seconds, 1),
        per_second=round(len(milliseconds) / seconds, 1),
        p50_ms=percentile(milliseconds, 0.50),
        p95_ms=percentile(milliseconds, 0.95),
        p99_ms=percentile(milliseconds, 0.99),
        slowest_ms=percentile(milliseconds, 1),
        statuses=dict(sorted(statuses.items())),
        cpu_share=round(cpu_seconds / seconds, 2),
    )


def percentile(ordered: list[float], share: float) -> float:
    """The value that `share` of the sorted values do not exceed; 0 of none."""
    if not ordered:
        return 0.0
    return round(ordered[max(0, int(len(ordered) * share + 0.999999) - 1)], 1)
