"""Judging under load on the embedded profile: SQLite, one web process, the real updater beside it, clients over HTTP.

Two loads: 20 judgements a second at random moments from 100 workers, whatever the answers take (open loop; also without
an updater, and with one that fits after every answer), and 20 workers who answer as fast as they are answered (closed
loop). The load generator runs on the same cores. Its share, the updater's, and that of everything else on the machine
are reported in parts of one core: figures from a machine that others were using say little. Afterwards the rows are
checked: nothing lost or invented, no pair given beyond its redundancy.
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

from benchmarks.harness import arguments, publish, tell
from tests.drills import database
from tests.drills.client import Client
from tests.drills.crowd import Crowd, Report, summary
from tests.drills.install import Install, spent_by_all
from tests.drills.ledger import Ledger, check

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
    """How much load, for how long, on a study of how many items."""

    rate: float = 20
    seconds: float = 60
    workers: int = 100
    clients: int = 20
    answers: int = 3000
    items: int = 400
    sizes: tuple[int, ...] = (10, 100, 1000)


QUICK = Plan(rate=10, seconds=2, workers=10, clients=4, answers=60, items=40, sizes=(10, 20))
Load = Callable[[Install, Ledger], Report]


def main(argv: Sequence[str] | None = None) -> None:
    """Prints the figures of both loads and the statements of one POST."""
    parser = arguments(__doc__)
    parser.add_argument("--seconds", type=float, help="length of the open loop")
    parser.add_argument("--answers", type=int, help="length of the closed loop")
    options = parser.parse_args(argv)
    plan = QUICK if options.quick else Plan(seconds=options.seconds or 60, answers=options.answers or 3000)
    publish(NAME, measure(plan), options)


def measure(plan: Plan) -> dict[str, Any]:
    """Each load on a fresh install of its own, and the statements."""

    def steady(install: Install, ledger: Ledger) -> Report:
        return open_loop(install, ledger, plan)

    compared = {}
    if plan is not QUICK:  # in two seconds nothing can be compared
        alone = on_a_fresh_install(plan, steady, "--no-updater")
        fitting = on_a_fresh_install(plan, steady, update_batch=1)
        compared = {
            "open_loop_without_updates": alone,
            "open_loop_while_it_fits_all_the_time": fitting,
            "p95_fitting_over_without": fitting["p95_ms"] / max(alone["p95_ms"], 1e-9),
        }
    return {
        "plan": asdict(plan),
        "targets": TARGETS,
        "open_loop": on_a_fresh_install(plan, steady),
        **compared,
        "closed_loop": on_a_fresh_install(plan, lambda install, ledger: closed_loop(install, ledger, plan)),
        "statements_of_one_post": statements(plan.sizes),
    }


def on_a_fresh_install(plan: Plan, load: Load, *serve: str, **study: int) -> dict[str, Any]:
    """What the clients saw, what the server spent, and what the rows and the log say afterwards."""
    with tempfile.TemporaryDirectory(prefix="concord-load-") as folder, Install(Path(folder)) as install:
        install.prepare(SLUG, items=plan.items, redundancy=REDUNDANCY, **study)
        book = install.folder / "ledger.csv"
        install.start(*serve)
        with Ledger(book) as ledger:
            before, began = spending(install), time.perf_counter()
            report = load(install, ledger)
            spent = spending(install) - before
            seconds = time.perf_counter() - began
        install.kill()
        install.wait_for_children()
        figures = check(book, database.judgements(install.database, SLUG))
        well, said = install.verify()
        return {
            **asdict(report),
            "errors": sum(count for status, count in report.statuses.items() if status not in (200, 201)),
            "server_cpu_ms_per_answer": 1000 * spent[0] / max(report.answers, 1),
            "updater_cpu_share": spent[1] / seconds,
            "others_cpu_share": (spent[3] - spent[:3].sum()) / seconds,
            "locked_in_log": install.log.read_text().count(LOCKED),
            "most_workers_of_a_pair": database.most_workers_of_a_pair(install.database, SLUG),
            "redundancy": REDUNDANCY,
            "ledger": figures.as_dict(),
            "verify": said,
            "correct": well and figures.clean,
        }


def spending(install: Install) -> np.ndarray:
    """CPU seconds so far: of the web process, the updater, this process, and everything on this machine."""
    return np.array([install.cpu_seconds(), install.cpu_seconds_of_children(), time.process_time(), spent_by_all()])


def closed_loop(install: Install, ledger: Ledger, plan: Plan) -> Report:
    """Every client answers as soon as it has been answered."""
    crowd = Crowd(install, SLUG, plan.clients, SEED, ledger)
    crowd.join()
    report = crowd.run(plan.answers)
    tell(f"closed loop: {report.per_second}/s, p95 {report.p95_ms} ms")
    return report


def open_loop(install: Install, ledger: Ledger, plan: Plan, seed: int = SEED) -> Report:
    """Answers come at the moments of a Poisson process, to the workers in turn; time counts from the planned moment."""
    crowd = Crowd(install, SLUG, plan.workers, seed, ledger)
    crowd.join()
    moments = arrivals(plan.rate, plan.seconds, Random(seed))
    began, cpu = time.perf_counter(), time.process_time()
    with ThreadPoolExecutor(plan.workers) as pool:
        turns = [
            pool.submit(keep_to, client, [began + at for at in moments[first :: plan.workers]])
            for first, client in enumerate(crowd.clients)
        ]
        times = sorted(1000 * seconds for turn in turns for seconds in turn.result())
    statuses: Counter[int] = sum((client.record.statuses for client in crowd.clients), Counter())
    report = summary(times, statuses, time.perf_counter() - began, time.process_time() - cpu)
    tell(f"open loop: {report.per_second}/s, p95 {report.p95_ms} ms")
    return report


def arrivals(rate: float, seconds: float, rng: Random) -> list[float]:
    """The moments of a Poisson process of this rate."""
    moments, at = [], rng.expovariate(rate)
    while at < seconds:
        moments.append(at)
        at += rng.expovariate(rate)
    return moments


def keep_to(client: Client, moments: list[float]) -> list[float]:
    """The worker answers at each moment, or late if the answer before took too long; seconds from moment to receipt."""
    taken = []
    for moment in moments:
        time.sleep(max(0.0, moment - time.perf_counter()))
        if client.answer_next():
            taken.append(time.perf_counter() - moment)
    client.close()
    return taken


def statements(sizes: Sequence[int]) -> dict[str, Any]:
    """How many statements a POST sends in studies of these sizes, plain and with new pairs lent, and which."""
    call = "import json; from tests.drills.statements import statements_of_posts as s; "
    call += f"print(json.dumps({{n: s(n) for n in {tuple(sizes)!r}}}))"
    with tempfile.TemporaryDirectory(prefix="concord-load-") as folder, Install(Path(folder)) as install:
        for words in (("migrate", "--verbosity", "0"), ("collectstatic", "--noinput", "--verbosity", "0")):
            install.manage(*words).check_returncode()
        done = install.manage("shell", "--no-imports", "-c", call)
        done.check_returncode()
    sent: dict[str, list[list[str]]] = json.loads(done.stdout.strip().splitlines()[-1])
    return {
        "plain": {items: len(posts[0]) for items, posts in sent.items()},
        "with_new_pairs": {items: len(posts[-1]) for items, posts in sent.items()},
        "list_plain": sent[str(sizes[-1])][0],
        "list_with_new_pairs": sent[str(sizes[-1])][-1],
    }


if __name__ == "__main__":
    main()
