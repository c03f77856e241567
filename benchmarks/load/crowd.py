"""Many clients in threads that share one budget of answers."""

import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

from benchmarks.load.client import LoadClient
from benchmarks.load.installation import Installation
from benchmarks.load.send_log import SendLog


@dataclass(frozen=True)
class LoadReport:
    """Response times and statuses seen by the clients; `cpu_share` is this process's CPU use as a share of one core."""

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
    """Closed loop: each client answers, waits for the receipt and answers again until the budget is used up.

    `rate` limits how many answers all clients together start per second.
    """

    def __init__(
        self,
        installation: Installation,
        slug: str,
        size: int,
        seed: int,
        send_log: SendLog | None = None,
        rate: float | None = None,
    ) -> None:
        self.clients = [
            LoadClient(installation.port, slug, installation.headers, seed * 1000 + n, send_log) for n in range(size)
        ]
        self._budget = 0
        self._budget_lock = threading.Lock()
        self._interval, self._next_start = 1 / rate if rate else 0.0, 0.0

    @property
    def acknowledged(self) -> int:
        return sum(len(client.stats.seconds) for client in self.clients)

    def join(self) -> None:
        """Enrol every client in the study."""
        with ThreadPoolExecutor(len(self.clients)) as pool:
            for joining in [pool.submit(client.join) for client in self.clients]:
                joining.result()

    @contextmanager
    def answering(self, budget: int) -> Iterator["Crowd"]:
        """Answer in the background while the block runs, then wait until the budget is used up."""
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
        """Stop starting new answers."""
        with self._budget_lock:
            self._budget = 0

    def run(self, budget: int) -> LoadReport:
        """Use up the budget and report what the clients saw."""
        began, cpu = time.perf_counter(), time.process_time()
        with self.answering(budget):
            pass
        return self.report(time.perf_counter() - began, time.process_time() - cpu)

    def report(self, seconds: float, cpu_seconds: float) -> LoadReport:
        stats = [client.stats for client in self.clients]
        milliseconds = sorted(1000 * each for client_stats in stats for each in client_stats.seconds)
        statuses = sum((client_stats.statuses for client_stats in stats), Counter())
        return summarise(milliseconds, statuses, seconds, cpu_seconds)

    def _work(self, client: LoadClient) -> None:
        try:
            while self._take() and client.answer_next():
                pass
        finally:
            client.close()

    def _take(self) -> bool:
        """Take one answer from the budget and, if a rate is set, wait for its start time; False if none is left."""
        with self._budget_lock:
            self._budget -= 1
            self._next_start = start = max(self._next_start + self._interval, time.perf_counter())
            taken = self._budget >= 0
        if taken and self._interval:
            time.sleep(max(0.0, start - time.perf_counter()))
        return taken


def summarise(milliseconds: list[float], statuses: Counter[int], seconds: float, cpu_seconds: float) -> LoadReport:
    """Summarise sorted response times as percentiles and rates."""
    return LoadReport(
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
    """Return the smallest value that at least `share` of the sorted values do not exceed; 0 for an empty list."""
    if not ordered:
        return 0.0
    return round(ordered[max(0, int(len(ordered) * share + 0.999999) - 1)], 1)
