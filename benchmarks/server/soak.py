"""Growth of memory, open files, write-ahead log and temporary rows during half an hour at 50 answers a second.

`--profile embedded` runs SQLite at 20 answers a second. Samples are taken every ten seconds; slopes are those of a
straight line through the samples after the first quarter, per hour.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import arguments, print_progress, publish
from benchmarks.load import database
from benchmarks.load.installation import Installation, descendants
from benchmarks.load.send_log import SendLog, compare_file
from benchmarks.load.stack import ServerStack
from benchmarks.load.workforce import Workforce, fixed_pace
from benchmarks.server.burst import SLUG, Plan, kill, running

SEED = 2
RATES = {"server": 50, "embedded": 20}  # answers per second
LIMITS = {"web_megabytes_per_hour": 1.0, "open_files": 5, "wal_megabytes": 64, "live_leases_per_worker": 6}
LEASES = "SELECT COUNT(*) FROM annotation_assignment WHERE closed_at IS NULL"


@dataclass(frozen=True)
class Sample:
    """The state of the server at one moment."""

    seconds: float
    web_megabytes: float
    updater_megabytes: float
    open_files: int
    wal_megabytes: float
    live_leases: int
    sessions: int


def process_megabytes(pid: int) -> float:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
    except OSError:
        return 0.0


def web_processes(server: Installation) -> set[int]:
    assert server.process is not None
    children = descendants(server.process.pid)
    return {server.process.pid} | (children if isinstance(server, ServerStack) else set())


def updater_processes(server: Installation) -> set[int]:
    assert server.process is not None
    if isinstance(server, ServerStack):
        roots = {process.pid for process in server.background.values()}
        return roots | {child for pid in roots for child in descendants(pid)}
    return descendants(server.process.pid)


def take_sample(server: Installation, began: float) -> Sample:
    wal = server.folder / "concord.sqlite3-wal"
    web = web_processes(server)
    return Sample(
        seconds=time.perf_counter() - began,
        web_megabytes=sum(map(process_megabytes, web)),
        updater_megabytes=sum(map(process_megabytes, updater_processes(server))),
        open_files=sum(len(list(Path(f"/proc/{pid}/fd").glob("*"))) for pid in web),
        wal_megabytes=wal.stat().st_size / 2**20 if wal.exists() else 0.0,
        live_leases=int(database.query(server.database, LEASES)[0][0]),
        sessions=int(database.query(server.database, "SELECT COUNT(*) FROM django_session")[0][0]),
    )


def slope_per_hour(samples: Sequence[Sample], name: str) -> float:
    """The slope, per hour, of a straight line through the samples after the first quarter."""
    later = samples[len(samples) // 4 :]
    if len(later) < 3:
        return 0.0
    hours = np.array([sample.seconds for sample in later]) / 3600
    return float(np.polyfit(hours, [getattr(sample, name) for sample in later], 1)[0])


def measure(profile: str, seconds: float, every: float) -> dict[str, Any]:
    rate = RATES[profile]
    with running(profile, Plan(items=400)) as server, SendLog(server.folder / "sends.csv") as send_log:
        workforce = Workforce(server, SLUG, [20.0 * n / rate for n in range(rate)], SEED, send_log)
        workforce.pace = fixed_pace(1.0)
        workforce.start()
        began, samples = time.perf_counter(), list[Sample]()
        while time.perf_counter() - began < seconds:
            time.sleep(every)
            samples.append(take_sample(server, began))
            print_progress(f"{samples[-1]}")
        report = workforce.report(began, time.perf_counter(), workforce.statuses(), 0.0)
        workforce.stop()
        kill(server)
        comparison = compare_file(send_log.path, database.judgements(server.database, SLUG))
        verified, output = server.verify()
    first, last = samples[len(samples) // 4], samples[-1]
    return {
        "minutes": round(seconds / 60, 1),
        "rate": rate,
        "answers": report.answers,
        "p95_ms": report.p95_ms,
        "p99_ms": report.p99_ms,
        "statuses": report.statuses,
        "web_megabytes": [first.web_megabytes, last.web_megabytes],
        "web_megabytes_per_hour": slope_per_hour(samples, "web_megabytes"),
        "updater_megabytes": [first.updater_megabytes, last.updater_megabytes],
        "updater_megabytes_per_hour": slope_per_hour(samples, "updater_megabytes"),
        "open_files": [min(s.open_files for s in samples), max(s.open_files for s in samples)],
        "wal_megabytes_at_most": max(sample.wal_megabytes for sample in samples),
        "live_leases": [first.live_leases, last.live_leases],
        "sessions": [first.sessions, last.sessions],
        "load_average": os.getloadavg()[0],
        "sends": comparison.as_dict(),
        "verify": output,
        "correct": verified and comparison.clean,
    }


def main(argv: Sequence[str] | None = None) -> None:
    """Measure one profile; the server profile if none is named."""
    parser = arguments(__doc__)
    parser.add_argument("--profile", choices=["server", "embedded"], default="server")
    parser.add_argument("--minutes", type=float, default=30.0)
    options = parser.parse_args(argv)
    seconds, every = (6.0, 2.0) if options.quick else (60 * options.minutes, 10.0)
    figures = measure(options.profile, seconds, every)
    publish(f"soak_{options.profile}", {"profile": options.profile, "limits": LIMITS, **figures}, options)


if __name__ == "__main__":
    main()
