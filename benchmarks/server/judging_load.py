"""Judging under load on the embedded profile: SQLite, one web process, the real updater, clients over HTTP.

Open loop: 20 judgements per second at random times from 100 workers, however long the responses take; also without an
updater, and with one that fits after every judgement. Closed loop: 20 workers who answer as soon as they get a
response. The load generator runs on the same cores. CPU shares of the generator, the updater and all other processes
are reported in parts of one core: figures from a busy machine mean little. Afterwards the rows are checked: nothing
lost or invented, no pair assigned beyond its redundancy.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from benchmarks.harness import arguments, print_progress, publish
from benchmarks.load import database
from benchmarks.load.client import LoadClient
from benchmarks.load.crowd import Crowd, LoadReport, summarise
from benchmarks.load.installation import Installation, machine_cpu_seconds
from benchmarks.load.send_log import SendLog, compare_file

NAME = "judging_load"
SLUG, REDUNDANCY, SEED = "load", 3, 1
LOCKED = "database is locked"
TARGETS = {
    "open_loop_p95_ms": 60,
    "closed_loop_per_second": 100,
    "closed_loop_p95_ms": 300,
    "p95_fitting_over_without": 1.5,
}


@dataclass(frozen=True)
class Plan:
    """Size of the load and of the study."""

    rate: float = 20
    seconds: float = 60
    workers: int = 100
    clients: int = 20
    answers: int = 3000
    items: int = 400
    sizes: tuple[int, ...] = (10, 100, 1000)


QUICK = Plan(rate=10, seconds=2, workers=10, clients=4, answers=60, items=40, sizes=(10, 20))
Load = Callable[[Installation, SendLog], LoadReport]


def main(argv: Sequence[str] | None = None) -> None:
    """Measure both loads and the queries of one POST."""
    parser = arguments(__doc__)
    parser.add_argument("--seconds", type=float, help="length of the open loop")
    parser.add_argument("--answers", type=int, help="length of the closed loop")
    options = parser.parse_args(argv)
    plan = QUICK if options.quick else Plan(seconds=options.seconds or 60, answers=options.answers or 3000)
    publish(NAME, measure(plan), options)


def measure(plan: Plan) -> dict[str, Any]:
    """Run each load on a new installation, and count queries."""

    def steady(installation: Installation, send_log: SendLog) -> LoadReport:
        return open_loop(installation, send_log, plan)

    def as_fast_as_possible(installation: Installation, send_log: SendLog) -> LoadReport:
        return closed_loop(installation, send_log, plan)

    compared = {}
    if plan is not QUICK:  # a run of two seconds is too short for a comparison
        alone = run_load(plan, steady, "--no-updater")
        fitting = run_load(plan, steady, update_batch=1)
        compared = {
            "open_loop_without_updates": alone,
            "open_loop_while_it_fits_all_the_time": fitting,
            "p95_fitting_over_without": fitting["p95_ms"] / max(alone["p95_ms"], 1e-9),
        }
    return {
        "plan": asdict(plan),
        "targets": TARGETS,
        "open_loop": run_load(plan, steady),
        **compared,
        "closed_loop": run_load(plan, as_fast_as_possible),
        "queries_of_one_post": query_counts(plan.sizes),
    }


def run_load(plan: Plan, load: Load, *serve: str, **study: int) -> dict[str, Any]:
    """Run a load on a new installation; return response times, CPU use and the check of the stored rows."""
    with tempfile.TemporaryDirectory(prefix="concord-load-") as folder, Installation(Path(folder)) as installation:
        installation.prepare(SLUG, items=plan.items, redundancy=REDUNDANCY, **study)
        log_path = installation.folder / "sends.csv"
        installation.start(*serve)
        with SendLog(log_path) as send_log:
            before, began = cpu_seconds(installation), time.perf_counter()
            report = load(installation, send_log)
            spent = cpu_seconds(installation) - before
            seconds = time.perf_counter() - began
        installation.kill()
        installation.wait_for_children()
        comparison = compare_file(log_path, database.judgements(installation.database, SLUG))
        verified, output = installation.verify()
        return {
            **asdict(report),
            "errors": sum(count for status, count in report.statuses.items() if status not in (200, 201)),
            "server_cpu_ms_per_answer": 1000 * spent[0] / max(report.answers, 1),
            "updater_cpu_share": spent[1] / seconds,
            "others_cpu_share": (spent[3] - spent[:3].sum()) / seconds,
            "locked_in_log": installation.log.read_text().count(LOCKED),
            "most_workers_per_pair": database.most_workers_per_pair(installation.database, SLUG),
            "redundancy": REDUNDANCY,
            "sends": comparison.as_dict(),
            "verify": output,
            "correct": verified and comparison.clean,
        }


def cpu_seconds(installation: Installation) -> np.ndarray:
    """CPU seconds so far of the web process, the updater, this process, and all processes on this machine."""
    web, updater = installation.cpu_seconds(), installation.updater_cpu_seconds()
    return np.array([web, updater, time.process_time(), machine_cpu_seconds()])


def closed_loop(installation: Installation, send_log: SendLog, plan: Plan) -> LoadReport:
    """Let every client answer as soon as its last answer has been acknowledged."""
    crowd = Crowd(installation, SLUG, plan.clients, SEED, send_log)
    crowd.join()
    report = crowd.run(plan.answers)
    print_progress(f"closed loop: {report.per_second}/s, p95 {report.p95_ms} ms")
    return report


def open_loop(installation: Installation, send_log: SendLog, plan: Plan, seed: int = SEED) -> LoadReport:
    """Answer at the times of a Poisson process, workers in turn; latency counts from the planned time."""
    crowd = Crowd(installation, SLUG, plan.workers, seed, send_log)
    crowd.join()
    times = arrivals(plan.rate, plan.seconds, Random(seed))
    began, cpu = time.perf_counter(), time.process_time()
    with ThreadPoolExecutor(plan.workers) as pool:
        working = [
            pool.submit(answer_at, client, [began + at for at in times[first :: plan.workers]])
            for first, client in enumerate(crowd.clients)
        ]
        latencies = sorted(1000 * seconds for work in working for seconds in work.result())
    statuses: Counter[int] = sum((client.stats.statuses for client in crowd.clients), Counter())
    report = summarise(latencies, statuses, time.perf_counter() - began, time.process_time() - cpu)
    print_progress(f"open loop: {report.per_second}/s, p95 {report.p95_ms} ms")
    return report


def arrivals(rate: float, seconds: float, rng: Random) -> list[float]:
    """Draw the arrival times of a Poisson process with this rate."""
    times, at = [], rng.expovariate(rate)
    while at < seconds:
        times.append(at)
        at += rng.expovariate(rate)
    return times


def answer_at(client: LoadClient, times: list[float]) -> list[float]:
    """Answer at each planned time, or later if the previous answer took too long; return seconds until the receipt."""
    latencies = []
    for planned in times:
        time.sleep(max(0.0, planned - time.perf_counter()))
        if client.answer_next():
            latencies.append(time.perf_counter() - planned)
    client.close()
    return latencies


def query_counts(sizes: Sequence[int]) -> dict[str, Any]:
    """List and count the queries of a POST in studies of these sizes, with and without leasing new pairs."""
    call = "import json; from benchmarks.load.query_log import queries_of_posts as s; "
    call += f"print(json.dumps({{n: s(n) for n in {tuple(sizes)!r}}}))"
    with tempfile.TemporaryDirectory(prefix="concord-load-") as folder, Installation(Path(folder)) as installation:
        for command in (("migrate", "--verbosity", "0"), ("collectstatic", "--noinput", "--verbosity", "0")):
            installation.run_command(*command)
        output = installation.run_command("shell", "--no-imports", "-c", call)
    queries: dict[str, list[list[str]]] = json.loads(output.strip().splitlines()[-1])
    return {
        "plain": {items: len(posts[0]) for items, posts in queries.items()},
        "with_new_pairs": {items: len(posts[-1]) for items, posts in queries.items()},
        "list_plain": queries[str(sizes[-1])][0],
        "list_with_new_pairs": queries[str(sizes[-1])][-1],
    }


if __name__ == "__main__":
    main()
