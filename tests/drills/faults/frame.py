"""The frame of every fault drill: warm-up under load, a fault, healing, and the comparison of log and database."""

import os
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.load import database
from benchmarks.load.client import LoadClient
from benchmarks.load.installation import Installation
from benchmarks.load.send_log import SendLog, compare, read_log
from benchmarks.load.servers import PostgresServer, find_postgres, start_postgres
from benchmarks.load.stack import BEAT, WORKER, ServerStack, require_programs, stack_on
from benchmarks.load.waiting import wait_until
from benchmarks.load.workforce import Workforce, fixed_pace
from tests.helpers.postgres import migrated_template

SLUG, ITEMS, UPDATE_BATCH = "drill", 120, 50
LONGEST_PAUSE = 2.0  # seconds between two attempts of a client; browsers wait up to 20
PATIENCE = 900  # seconds until a drill gives up; criteria about time have limits of their own
LOG_FOLDER = "DRILL_LOGS"  # where the clients' logs are written if the server's folder may be full
VERSION = """
SELECT COALESCE(MAX(s.last_sequence), 0), COUNT(s.id) FROM modelling_modelsnapshot s
JOIN annotation_project p ON p.id = s.project_id WHERE p.slug = 'drill'
"""
ORDER = """
SELECT s.number, s.last_sequence FROM modelling_modelsnapshot s
JOIN annotation_project p ON p.id = s.project_id WHERE p.slug = 'drill' ORDER BY s.number
"""


@dataclass(frozen=True)
class Frame:
    """Seconds of each part. The fault lasts `fault` seconds, or as long as the drill needs."""

    name: str
    warm_up: float
    fault: float
    heal: float
    repeats: int  # kills, jumps or attempts, where a drill repeats its fault


FULL = Frame("full", warm_up=20, fault=60, heal=60, repeats=5)
SHORT = Frame("short", warm_up=4, fault=8, heal=8, repeats=2)
RATES = {"sqlite": 20, "postgresql": 50}  # answers per second


@dataclass
class Run:
    """A running server and its workforce; drills add figures and what they find wrong."""

    server: Installation
    workforce: Workforce
    frame: Frame
    rng: Random
    figures: dict[str, Any] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    excused: set[str] = field(default_factory=set)  # answers that a drill deletes with their database

    @property
    def stack(self) -> ServerStack:
        assert isinstance(self.server, ServerStack)
        return self.server

    def expect(self, holds: bool, otherwise: str) -> None:
        """Note a criterion that does not hold."""
        if not holds:
            self.wrong.append(otherwise)

    def expect_within(self, limit: float, name: str, seconds: float) -> None:
        """Add a time to the figures; it counts in the full frame only, because the short one may share the machine."""
        self.figures[name] = round(seconds, 1)
        self.expect(seconds <= limit or self.frame is not FULL, f"{name}: {seconds:.1f} s, limit {limit:g} s")

    def pause(self, seconds: float) -> None:
        threading.Event().wait(seconds)

    def statuses_during(self, action: Callable[[], object]) -> dict[int, int]:
        """How often each status was returned to the workers during the action (0: no response)."""
        before = self.workforce.statuses()
        action()
        return dict(sorted((self.workforce.statuses() - before).items()))

    def seconds_to_next_answer(self) -> float:
        """Wait until an answer is acknowledged that was planned from now on."""
        now = time.perf_counter()
        return wait_until(
            lambda: any(sample.planned >= now for sample in self.workforce.samples[-200:]),
            PATIENCE,
            "no answer was stored after the fault",
        )

    def p95_ms(self, seconds: float) -> float:
        """The 95th percentile of the response times of the next seconds."""
        since = time.perf_counter()
        self.pause(seconds)
        return self.workforce.report(since, time.perf_counter(), Counter(), 0.0).p95_ms

    def kill_and_restart(self, *options: str) -> float:
        self.server.kill()
        return self.server.start(*(options or serve_options(self.server)))

    def wait_for_model(self) -> float:
        """Wait until a version lacks less than a batch of the events so far, and return the seconds."""
        ((last,),) = database.query(self.server.database, "SELECT MAX(sequence) FROM annotation_judgement")
        known = max((last or 0) - UPDATE_BATCH, 0)  # on a busy machine there may be less than a batch yet
        return wait_until(
            lambda: database.query(self.server.database, VERSION)[0][0] > known,
            PATIENCE,
            f"no version includes event {known + 1}",
            interval=0.1,
        )


@cache
def shared_postgres() -> PostgresServer:
    """One PostgreSQL for all drills of this process, each with a database of its own."""
    require_programs()
    return start_postgres(find_postgres(), durable=True)  # type: ignore[arg-type]


def serve_options(server: Installation) -> tuple[str, ...]:
    return ("--no-updater", "--workers", "2") if server.database_url else ()


@contextmanager
def empty_server(kind: str) -> Iterator[Installation]:
    """An installation with tables but no processes, on PostgreSQL with Redis or on SQLite."""
    if kind == "postgresql":
        postgres = shared_postgres()
        with stack_on(postgres, migrated_template(postgres.url)) as stack:
            yield stack
    else:
        with tempfile.TemporaryDirectory(prefix="concord-drill-") as folder, Installation(Path(folder)) as server:
            yield server


def start(server: Installation) -> None:
    """Start all processes of the profile."""
    server.start(*serve_options(server))
    if isinstance(server, ServerStack):
        server.start_background("worker", *WORKER)
        server.start_background("beat", *BEAT)


Drill = Callable[[Run], None]


def run_drill(
    drill: Drill,
    kind: str,
    frame: Frame,
    seed: int,
    *,
    prepare: Callable[[Installation], None] = start,
    client: type[LoadClient] = LoadClient,
) -> dict[str, Any]:
    """Run one drill on a new server and return its figures."""
    began, load = time.perf_counter(), os.getloadavg()[0]
    with empty_server(kind) as server:
        server.prepare(SLUG, items=ITEMS, update_batch=UPDATE_BATCH, redundancy=50)
        prepare(server)
        log_path = Path(os.environ.get(LOG_FOLDER) or server.folder) / f"sends-{os.getpid()}-{seed}.csv"
        with SendLog(log_path) as send_log:
            rate = RATES[kind]
            workforce = Workforce(server, SLUG, [2.0 * n / rate for n in range(rate)], seed, send_log, client)
            for each in workforce.clients:
                each.pauses = (each.pauses[0], LONGEST_PAUSE)
            workforce.pace = fixed_pace(1.0)
            run = Run(server, workforce, frame, Random(seed))
            workforce.start()
            try:
                wait_until(lambda: workforce.errors or len(workforce.joins) == rate, PATIENCE, "not everyone joined")
                run.pause(frame.warm_up)
                drill(run)
                run.pause(frame.heal)
            finally:
                workforce.stop()
        catch_up = run.wait_for_model()
        stop(server)
        rows = list(database.judgements(server.database, SLUG))
        missing = run.excused - {row.uuid for row in rows}
        sends = {uuid: send for uuid, send in read_log(log_path).items() if uuid not in missing}
        comparison = compare(sends, rows)
        versions = database.query(server.database, ORDER)
        verified, output = server.verify()
    statuses = workforce.statuses()
    run.expect(statuses[500] == 0, f"{statuses[500]} responses had status 500")
    run.expect(versions == sorted(versions, key=lambda row: row[1]), "a later version includes fewer events")
    return {
        "database": kind,
        "frame": frame.name,
        "seed": seed,
        **comparison.as_dict(),
        "verify": "ok" if verified else output,
        "versions": len(versions),
        "model_caught_up_seconds": round(catch_up, 1),
        "statuses": dict(sorted(statuses.items())),
        **run.figures,
        "wrong": run.wrong,
        "load_average": round(load, 1),
        "seconds": round(time.perf_counter() - began),
        "passed": comparison.clean and verified and not run.wrong and comparison.acknowledged > 0,
    }


def stop(server: Installation) -> None:
    """Kill all processes of the profile."""
    if isinstance(server, ServerStack):
        server.kill_all()
    server.kill()
    server.wait_for_children()
