"""Run fault drills, print one line for each, and write benchmarks/results/drills.json.

    python -m tests.drills.faults                       # each once in full and four more seeds in the short frame
    python -m tests.drills.faults --short --seeds 1 --drills D4,D9 --database postgresql

Both databases run side by side. The exit code is 1 if a drill failed.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness import RESULTS
from benchmarks.load.client import LoadClient
from benchmarks.load.installation import ROOT
from tests.drills.faults import clock, databases, disk, network, pressure, restore, updates, web
from tests.drills.faults.frame import FULL, SHORT, Drill, Frame, run_drill, start

BOTH, SQLITE, POSTGRESQL = ("sqlite", "postgresql"), ("sqlite",), ("postgresql",)


@dataclass(frozen=True)
class Entry:
    """A drill with the databases it concerns, how its server is started, and who sends the answers."""

    drill: Drill
    databases: tuple[str, ...] = BOTH
    prepare: Any = start
    client: type[LoadClient] = LoadClient


DRILLS = {
    "D1": Entry(web.killed_after_commit),
    "D2": Entry(web.killed_before_commit),
    "D3": Entry(updates.killed_during_updates, prepare=updates.start_without_updater),
    "D4": Entry(databases.postgresql_killed, POSTGRESQL),
    "D5": Entry(databases.redis_lost, POSTGRESQL),
    "D6": Entry(disk.disk_full),
    "D7": Entry(clock.clock_jumps, prepare=clock.start_with_clock),
    "D8": Entry(network.delivered_twice, client=network.RepeatingClient),
    "D9": Entry(databases.slow_and_frozen, prepare=databases.start_behind_proxy),
    "D10": Entry(network.responses_lost, client=network.DisconnectingClient),
    "D11": Entry(updates.out_of_memory, prepare=updates.start_without_updater),
    "D12": Entry(restore.restored_from_backup),
    "P37": Entry(pressure.stuck_viewers),
    "P40": Entry(pressure.overloaded),
    "P42": Entry(pressure.rolling_restart),
    "P49": Entry(pressure.flooded),
    "kills": Entry(pressure.processes_killed, POSTGRESQL, pressure.start_cluster),
}


def run_one(name: str, kind: str, frame: Frame, seed: int) -> dict[str, Any]:
    """Run one drill; an error of the drill itself is a failure with its message."""
    entry = DRILLS[name]
    if name == "D6" and not disk.is_small():
        options = ["--drills", name, "--database", kind, "--seed", str(seed), "--seeds", "1", "--json"]
        output = disk.run_in_small_file_system([*options, *(["--short"] if frame is SHORT else [])])
        return json.loads(output.splitlines()[-1]) if output.strip() else failed(name, kind, frame, seed, "no output")
    if name == "D7" and not clock.is_possible():
        return {**failed(name, kind, frame, seed, "a C compiler is needed"), "skipped": True}
    try:
        figures = run_drill(entry.drill, kind, frame, seed, prepare=entry.prepare, client=entry.client)
    except Exception as error:
        return failed(name, kind, frame, seed, f"{type(error).__name__}: {error}")
    return {"drill": name, "description": describe(entry.drill), **figures}


def describe(drill: Drill) -> str:
    return (drill.__doc__ or "").split(": ", 1)[-1].strip()


def failed(name: str, kind: str, frame: Frame, seed: int, reason: str) -> dict[str, Any]:
    found = {"drill": name, "database": kind, "frame": frame.name, "seed": seed}
    return {**found, "wrong": [reason], "passed": False}


def column(kind: str, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Run the drills of one database, one after the other."""
    for name in options.drills:
        if kind in DRILLS[name].databases:
            for number in range(options.seeds):
                frame = SHORT if options.short or number else FULL
                yield run_one(name, kind, frame, options.seed + number)


def line(figures: dict[str, Any]) -> str:
    counts = ", ".join(f"{name} {figures.get(name, '?')}" for name in ("acknowledged", "lost", "duplicated", "verify"))
    result = "passed" if figures["passed"] else f"FAILED {figures['wrong']}"
    place = f"{figures['drill']} {figures['database']} seed {figures['seed']} ({figures['frame']})"
    return f"{place}: {result}; {counts}; {figures.get('seconds', '?')} s"


def both_databases(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Run one process for each database side by side and collect what they print."""
    command = [sys.executable, "-m", "tests.drills.faults", "--json", "--drills", ",".join(options.drills)]
    command += ["--seeds", str(options.seeds), "--seed", str(options.seed), *(["--short"] if options.short else [])]
    columns = [
        subprocess.Popen([*command, "--database", kind], cwd=ROOT, stdout=subprocess.PIPE, text=True) for kind in BOTH
    ]
    return [json.loads(found) for process in columns for found in process.communicate()[0].splitlines()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--drills", type=lambda text: text.split(","), default=list(DRILLS), help="such as D1,D4")
    parser.add_argument("--database", choices=BOTH, help="default: both, side by side")
    parser.add_argument("--short", action="store_true", help="the short frame for every seed")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--json", action="store_true", help="print JSON lines and write no file")
    parser.add_argument("--results", type=Path, default=RESULTS / "drills.json")
    options = parser.parse_args()
    if options.database:
        results = []
        for figures in column(options.database, options):
            results.append(figures)
            sys.stderr.write(line(figures) + "\n")
            if options.json:
                sys.stdout.write(json.dumps(figures) + "\n")
                sys.stdout.flush()
    else:
        results = both_databases(options)
    if not options.json:
        write(results, options.results)
    sys.exit(0 if all(figures["passed"] for figures in results) else 1)


def write(results: list[dict[str, Any]], path: Path) -> None:
    """Write the results; those of an earlier run stay unless the same drill ran again."""
    key = ("drill", "database", "frame", "seed")
    kept = json.loads(path.read_text())["drills"] if path.exists() else []
    merged = {tuple(figures[name] for name in key): figures for figures in [*kept, *results]}
    order = list(DRILLS)
    rows = sorted(merged.values(), key=lambda each: (order.index(each["drill"]), *(each[name] for name in key[1:])))
    path.write_text(json.dumps({"written": time.strftime("%Y-%m-%d"), "drills": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
