"""The ledger drill (P1; D1 and D2 at random moments): a crowd posts, the web process dies by kill -9, nothing is lost.

    python -m tests.drills.kills --posts 50000 --kills 50

prints the figures as JSON and ends with 1 unless lost, duplicated, invented and mismatched are 0 and `verify` is happy.
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

from tests.drills import database
from tests.drills.crowd import Crowd
from tests.drills.install import Install
from tests.drills.ledger import Ledger, check
from tests.drills.waiting import wait_until

SLUG = "drill"
LONGEST_AIM = 0.2  # a kill comes up to this long after its turn, so that it falls anywhere in a request
TURN_SECONDS = 1800


def drill(
    install: Install, *, posts: int, kills: int, clients: int, items: int, seed: int, updater: bool = True
) -> dict[str, Any]:
    """Figures of one whole drill on this empty install."""
    serve = [] if updater else ["--no-updater"]
    install.prepare(SLUG, items=items, update_batch=500)
    book = install.folder / "ledger.csv"
    rng = Random(seed)
    with install, Ledger(book) as ledger:
        began, cpu = time.perf_counter(), time.process_time()
        starts = [install.start(*serve)]
        crowd = Crowd(install, SLUG, clients, seed, ledger)
        crowd.join()
        with crowd.answering(posts):
            for turn in sorted(rng.sample(range(posts * 19 // 20), kills)):
                kill_after(install, crowd, turn, rng.random() * LONGEST_AIM)
                starts.append(install.start(*serve))
                tell(f"killed after {crowd.acknowledged:,} answers, back in {starts[-1]:.1f} s")
        report = crowd.report(time.perf_counter() - began, time.process_time() - cpu)
        install.kill()
        install.wait_for_children()
    figures = check(book, database.judgements(install.database, SLUG))
    well, said = install.verify()
    return {
        "drill": "kill -9 of the web process at random moments (P1, D1, D2)",
        "database": "postgresql" if install.database_url else "sqlite",
        "clients": clients,
        "kills": kills,
        "seed": seed,
        **figures.as_dict(),
        "verify": said,
        "most_workers_of_a_pair": database.most_workers_of_a_pair(install.database, SLUG),
        "restart_seconds": {"median": round(sorted(starts)[len(starts) // 2], 1), "longest": round(max(starts), 1)},
        "crowd": asdict(report),
        "load_average": os.getloadavg()[0],
        "passed": figures.clean and well and figures.acknowledged == posts,
    }


def kill_after(install: Install, crowd: Crowd, turn: int, aim: float) -> None:
    """The server dies by kill -9 soon after acknowledgement number `turn`."""
    wait_until(lambda: crowd.acknowledged >= turn, TURN_SECONDS, f"the crowd did not come to answer {turn}")
    threading.Event().wait(aim)
    install.kill()


def tell(line: str) -> None:
    """One line of progress."""
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
        figures = drill(Install(Path(folder)), **options)
    sys.stdout.write(json.dumps(figures, indent=1) + "\n")
    sys.exit(0 if figures["passed"] else 1)


if __name__ == "__main__":
    main()
