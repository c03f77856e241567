"""The kill drill: the web process is killed at random moments under load, and no acknowledged answer is lost.

    python -m tests.drills.scenarios.kills --posts 50000 --kills 50

prints the figures as JSON and exits with 1 unless lost, duplicated, invented and mismatched are 0 and `verify` passes.
"""

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from dataclasses import asdict
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.load import database
from benchmarks.load.crowd import Crowd
from benchmarks.load.installation import Installation
from benchmarks.load.send_log import SendLog, compare_file
from benchmarks.load.waiting import wait_until

SLUG = "drill"
LONGEST_DELAY = 0.2  # seconds before a kill, so that it falls anywhere in a request
KILL_SECONDS = 1800


def drill(
    installation: Installation, *, posts: int, kills: int, clients: int, items: int, seed: int, updater: bool = True
) -> dict[str, Any]:
    """Kill and restart the server under load on this empty installation, and return the figures."""
    serve = [] if updater else ["--no-updater"]
    installation.prepare(SLUG, items=items, update_batch=500)
    log_path = installation.folder / "sends.csv"
    rng = Random(seed)
    with installation, SendLog(log_path) as send_log:
        began, cpu = time.perf_counter(), time.process_time()
        starts = [installation.start(*serve)]
        crowd = Crowd(installation, SLUG, clients, seed, send_log)
        crowd.join()
        with crowd.answering(posts):
            for answers in sorted(rng.sample(range(posts * 19 // 20), kills)):
                kill_after(installation, crowd, answers, rng.random() * LONGEST_DELAY)
                starts.append(installation.start(*serve))
                print_progress(f"killed after {crowd.acknowledged:,} answers, back in {starts[-1]:.1f} s")
        report = crowd.report(time.perf_counter() - began, time.process_time() - cpu)
        installation.kill()
        installation.wait_for_children()
    comparison = compare_file(log_path, database.judgements(installation.database, SLUG))
    verified, output = installation.verify()
    return {
        "drill": "kill -9 of the web process at random moments",
        "database": "postgresql" if installation.database_url else "sqlite",
        "clients": clients,
        "kills": kills,
        "seed": seed,
        **comparison.as_dict(),
        "verify": output,
        "most_workers_per_pair": database.most_workers_per_pair(installation.database, SLUG),
        "restart_seconds": {"median": round(sorted(starts)[len(starts) // 2], 1), "longest": round(max(starts), 1)},
        "crowd": asdict(report),
        "load_average": os.getloadavg()[0],
        "passed": comparison.clean and verified and comparison.acknowledged == posts,
    }


def kill_after(installation: Installation, crowd: Crowd, answers: int, delay: float) -> None:
    """Kill the server `delay` seconds after this many answers were acknowledged."""
    wait_until(lambda: crowd.acknowledged >= answers, KILL_SECONDS, f"the crowd did not reach answer {answers}")
    threading.Event().wait(delay)
    installation.kill()


def print_progress(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--posts", type=int, default=2000)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--items", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    options = vars(parser.parse_args())
    with tempfile.TemporaryDirectory(prefix="concord-drill-") as folder:
        figures = drill(Installation(Path(folder)), **options)
    sys.stdout.write(json.dumps(figures, indent=1) + "\n")
    sys.exit(0 if figures["passed"] else 1)


if __name__ == "__main__":
    main()
