"""Judging while 200,000 judgements are imported into the same study, on the embedded profile (SQLite).

A crowd answers at a fixed rate, first alone and then during the import: while the rows are checked and staged by one
process, and while the updater appends them. Everything runs on one machine.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.harness import arguments, print_progress, publish
from benchmarks.load import database
from benchmarks.load.crowd import Crowd
from benchmarks.load.installation import Installation
from benchmarks.load.waiting import wait_until

NAME = "importing"
SLUG, ITEMS, WORKERS, CLIENTS, RATE = "import", 300, 500, 20, 10.0
ROWS, QUICK_ROWS = 200_000, 4000
SECONDS_ALONE, QUICK_SECONDS = 20, 2
LONGEST = 3600
STATE = "SELECT state, added FROM annotation_judgementimport"


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    """Measure response times before and during an import."""
    parser = arguments(__doc__)
    parser.add_argument("--rows", type=int, help="judgements to import")
    options = parser.parse_args(argv)
    rows = options.rows or (QUICK_ROWS if options.quick else ROWS)
    with tempfile.TemporaryDirectory(prefix="concord-load-") as folder, Installation(Path(folder)) as installation:
        installation.prepare(SLUG, items=ITEMS, redundancy=1000, update_batch=10**6)
        installation.start()
        found = measure(installation, rows, QUICK_SECONDS if options.quick else SECONDS_ALONE)
        installation.kill()
        installation.wait_for_children()
        verified, output = installation.verify()
    return publish(NAME, {"rows": rows, "rate": RATE, **found, "correct": verified, "verify": output}, options)


def measure(installation: Installation, rows: int, seconds_alone: float) -> dict[str, Any]:
    """Measure answers alone, while another process stages the rows, and while the updater appends them."""
    found: dict[str, Any] = {}

    def alone() -> None:
        time.sleep(seconds_alone)

    def staging() -> None:
        call = f"from benchmarks.server.importing import stage; stage({rows})"
        found["staging_process"] = json.loads(installation.run_python(call).strip().splitlines()[-1])

    def appending() -> None:
        wait_until(
            lambda: database.query(installation.database, STATE) == [("done", rows)], LONGEST, "the import did not end"
        )

    for seed, phase in enumerate((alone, staging, appending)):
        crowd = Crowd(installation, SLUG, CLIENTS, seed, rate=RATE)
        crowd.join()
        began, cpu = time.perf_counter(), time.process_time()
        with crowd.answering(10**9):
            phase()
            crowd.stop()
        report = crowd.report(time.perf_counter() - began, time.process_time() - cpu)
        found[phase.__name__] = asdict(report)
        print_progress(f"{phase.__name__}: {report.seconds} s, p95 {report.p95_ms} ms, slowest {report.slowest_ms} ms")
    return found


def stage(rows: int) -> None:
    """Stage generated judgements in this process, and print how long that took."""
    from annotation.importing.background import import_judgements
    from annotation.importing.judgement_files import ImportedJudgement
    from annotation.models import Project

    made = [
        ImportedJudgement(
            n + 2,
            f"person-{n % WORKERS}",
            f"item-{n % ITEMS}",
            f"item-{(n + 1 + n // ITEMS % (ITEMS - 1)) % ITEMS}",
            "a",
        )
        for n in range(rows)
    ]
    began = time.perf_counter()
    import_judgements(project=Project.objects.get(slug=SLUG), user=None, rows=made)
    print(json.dumps({"seconds": time.perf_counter() - began}))


if __name__ == "__main__":
    main()
