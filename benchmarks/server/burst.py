"""The start of a study: hundreds of workers join within two minutes and judge; live pages are open, the model updates.

`--profile server`: PostgreSQL (every commit synced), Redis, two web processes, a Celery worker and beat; 500 workers
who give 67 and then 100 answers a second. `--profile embedded`: SQLite, one web process, its updater; 100 workers who
give 13 and then 20. Workers answer at planned times, however long the responses take; response times count from the
planned time. Then the rate is raised until the 95th percentile exceeds its limit. Everything runs on one machine: CPU
use is reported for each part, the load generator and all other processes, in units of one core. At the end the
clients' own log is compared with the rows.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.harness import arguments, print_progress, publish
from benchmarks.load import database
from benchmarks.load.crowd import percentile
from benchmarks.load.installation import Installation, machine_cpu_seconds
from benchmarks.load.send_log import SendLog, compare_file
from benchmarks.load.sockets import Viewers, viewers
from benchmarks.load.stack import BEAT, WORKER, ServerStack, server_stack
from benchmarks.load.workforce import Pace, Workforce, burst_times, fixed_pace, uniform_pace

SLUG, SEED = "burst", 1
TARGETS = {"p95_ms": 300, "p99_ms": 1000, "joins_p95_ms": 2000, "errors_5xx": 0, "lost": 0}
VERSIONS = "SELECT COUNT(*) FROM modelling_modelsnapshot"
RAMP = 1.25


@dataclass(frozen=True)
class Plan:
    """Sizes and lengths; `relaxed` and `brisk` are the seconds between two answers of a worker."""

    workers: int = 500
    sockets: int = 500
    items: int = 400
    joining_seconds: float = 120
    relaxed_seconds: float = 600
    brisk_seconds: float = 300
    ramp_seconds: float = 30
    ramp_steps: int = 8
    relaxed: tuple[float, float] = (5, 10)
    brisk: float = 5


FULL = {"server": Plan(), "embedded": Plan(workers=100, sockets=100)}
SHORT = {
    "server": Plan(relaxed_seconds=60, brisk_seconds=60, ramp_seconds=20, ramp_steps=4),
    "embedded": Plan(
        workers=100,
        sockets=100,
        joining_seconds=30,
        relaxed_seconds=30,
        brisk_seconds=30,
        ramp_seconds=15,
        ramp_steps=6,
    ),
}
QUICK = Plan(
    workers=12, sockets=6, items=40, joining_seconds=4, relaxed_seconds=4, brisk_seconds=4, ramp_seconds=2,
    ramp_steps=1, relaxed=(0.5, 1), brisk=0.5,
)  # fmt: skip


class Meter:
    """Measures one phase of the load at a time."""

    def __init__(self, server: Installation, workforce: Workforce, watching: Viewers) -> None:
        self.server, self.workforce, self.watching = server, workforce, watching

    def cpu(self) -> dict[str, float]:
        if isinstance(self.server, ServerStack):
            parts = self.server.cpu_seconds_by_part()
        else:
            parts = {"web": self.server.cpu_seconds(), "updater": self.server.updater_cpu_seconds()}
        parts |= {"load_generator": time.process_time(), "sockets": self.watching.state()["cpu_seconds"]}
        return {**parts, "everything": machine_cpu_seconds()}

    def phase(self, name: str, seconds: float, pace: Pace) -> dict[str, Any]:
        """Let the workers answer at this pace for a number of seconds, and return the figures."""
        self.workforce.pace = pace
        before, statuses = self.cpu(), self.workforce.statuses()
        messages, versions = self.watching.state()["messages"], self.versions()
        since = time.perf_counter()
        time.sleep(seconds)
        until = time.perf_counter()
        after = self.cpu()
        spent = {part: after[part] - before.get(part, 0.0) for part in after}
        report = self.workforce.report(since, until, self.workforce.statuses() - statuses, spent["load_generator"])
        shares = {part: round(cpu / (until - since), 2) for part, cpu in spent.items()}
        shares["others"] = round(shares.pop("everything") - sum(shares[part] for part in spent if part in shares), 2)
        figures = {
            **asdict(report),
            "offered_per_second": round(self.workforce.offered(since, until), 1),
            "errors_5xx": sum(count for status, count in report.statuses.items() if status >= 500 or status == 0),
            "cpu_shares": shares,
            "socket_messages_per_second": round((self.watching.state()["messages"] - messages) / (until - since), 1),
            "sockets_open": self.watching.state()["open"],
            "versions": self.versions() - versions,
        }
        print_progress(
            f"{name}: {figures['per_second']}/s of {figures['offered_per_second']}/s, p95 {report.p95_ms} ms, {shares}"
        )
        return figures

    def versions(self) -> int:
        return int(database.query(self.server.database, VERSIONS)[0][0])


def holds(figures: dict[str, Any]) -> bool:
    """Whether the offered rate was served in time and without errors."""
    served = figures["per_second"] >= 0.95 * figures["offered_per_second"]
    return served and figures["p95_ms"] <= TARGETS["p95_ms"] and not figures["errors_5xx"]


def measure(profile: str, plan: Plan) -> dict[str, Any]:
    """Run the whole burst on a new installation."""
    with ExitStack() as stack:
        server = stack.enter_context(running(profile, plan))
        log_path = server.folder / "sends.csv"
        send_log = stack.enter_context(SendLog(log_path))
        watching = stack.enter_context(viewers(server, SLUG, plan.sockets))
        workforce = Workforce(server, SLUG, burst_times(plan.workers, plan.joining_seconds), SEED, send_log)
        meter = Meter(server, workforce, watching)
        workforce.start()
        phases = {"joining": meter.phase("joining", plan.joining_seconds, uniform_pace(*plan.relaxed))}
        phases["relaxed"] = meter.phase("relaxed", plan.relaxed_seconds, uniform_pace(*plan.relaxed))
        phases["brisk"] = meter.phase("brisk", plan.brisk_seconds, fixed_pace(plan.brisk))
        ramp = list(raise_rate(meter, plan))
        statuses, joins = workforce.statuses(), sorted(1000 * seconds for seconds in workforce.joins)
        workforce.stop()
        kill(server)
        comparison = compare_file(log_path, database.judgements(server.database, SLUG))
        verified, output = server.verify()
    held = [step["offered_per_second"] for step in [*phases.values(), *ramp] if holds(step)]
    return {
        "plan": asdict(plan),
        **phases,
        "ramp": ramp,
        "highest_rate_that_holds": max(held, default=0),
        "joins": {"count": len(joins), "p95_ms": percentile(joins, 0.95), "slowest_ms": percentile(joins, 1)},
        "errors_5xx": sum(count for status, count in statuses.items() if status >= 500 or status == 0),
        "sends": comparison.as_dict(),
        "verify": output,
        "correct": verified and comparison.clean,
    }


def raise_rate(meter: Meter, plan: Plan) -> Iterator[dict[str, Any]]:
    """Raise the rate by a quarter until it no longer holds."""
    pace = plan.brisk
    for _ in range(plan.ramp_steps):
        pace /= RAMP
        figures = meter.phase("ramp", plan.ramp_seconds, fixed_pace(pace))
        yield figures
        if not holds(figures):
            return


@contextmanager
def running(profile: str, plan: Plan) -> Iterator[Installation]:
    """A new installation with all its processes."""
    if profile == "server":
        with server_stack() as stack:
            stack.prepare(SLUG, items=plan.items)
            stack.start("--no-updater", "--workers", "2")
            stack.start_background("worker", *WORKER)
            stack.start_background("beat", *BEAT)
            yield stack
    else:
        with tempfile.TemporaryDirectory(prefix="concord-burst-") as folder, Installation(Path(folder)) as embedded:
            embedded.prepare(SLUG, items=plan.items)
            embedded.start()
            yield embedded


def kill(server: Installation) -> None:
    if isinstance(server, ServerStack):
        server.kill_all()
    server.kill()
    server.wait_for_children()


def main(argv: Sequence[str] | None = None) -> None:
    """Measure one profile or both."""
    parser = arguments(__doc__)
    parser.add_argument("--profile", choices=["server", "embedded"], help="default: both")
    parser.add_argument("--short", action="store_true", help="minutes instead of a quarter of an hour")
    parser.add_argument("--workers", type=int, help="another number of workers and sockets")
    options = parser.parse_args(argv)
    for profile in [options.profile] if options.profile else ["server", "embedded"]:
        plan = QUICK if options.quick else (SHORT if options.short else FULL)[profile]
        if options.workers:
            plan = replace(plan, workers=options.workers, sockets=options.workers)
        publish(f"burst_{profile}", {"profile": profile, "targets": TARGETS, **measure(profile, plan)}, options)


if __name__ == "__main__":
    main()
