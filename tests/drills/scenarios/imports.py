"""The import drill: a file with one bad row imports nothing; a good file imported twice adds its rows once."""

import csv
import json
import time
from pathlib import Path
from typing import Any

from benchmarks.load import database
from benchmarks.load.crowd import Crowd
from benchmarks.load.installation import Installation
from benchmarks.load.waiting import wait_until

SLUG, GROUP = "drill", "imported"
RATE = 20  # answers per second
BEFORE, SECONDS = 20, 600
IMPORTED = f"""SELECT COUNT(*) FROM annotation_item i WHERE i."group" = '{GROUP}'"""


def drill(installation: Installation, *, rows: int, clients: int, seed: int) -> dict[str, Any]:
    """Import a bad and a good file while a crowd judges on this empty installation, and return the figures."""
    installation.prepare(SLUG, items=200, update_batch=50)
    texts = [f"An imported argument, number {number}." for number in range(1, rows + 1)]
    good = write(installation.folder / "good.csv", texts)
    bad = write(installation.folder / "bad.csv", [*texts[:-2], "", texts[-1]])  # the last row but one has no text
    with installation:
        installation.start()
        crowd = Crowd(installation, SLUG, clients, seed, rate=RATE)
        crowd.join()
        began, cpu = time.perf_counter(), time.process_time()
        with crowd.answering(10**9):
            wait_until(lambda: crowd.acknowledged >= BEFORE, SECONDS, "the crowd stopped")
            refused = installation.manage("import_items", SLUG, str(bad))
            after_the_bad_file = imported(installation)
            results = [
                json.loads(installation.run_command("import_items", SLUG, str(good), "--json")) for _ in range(2)
            ]
            crowd.stop()
        report = crowd.report(time.perf_counter() - began, time.process_time() - cpu)
    errors = sum(count for status, count in report.statuses.items() if status >= 500 or status == 0)
    row_named = f"line {rows}" in refused.stderr.lower() and "text" in refused.stderr
    added = [result["added"] for result in results]
    return {
        "drill": "imports while people judge",
        "database": "postgresql" if installation.database_url else "sqlite",
        "rows": rows,
        "refusal": refused.stderr.strip(),
        "after_the_bad_file": after_the_bad_file,
        "added": added,
        "answers": report.answers,
        "answers_per_second": report.per_second,
        "answers_per_second_wanted": RATE,
        "p95_ms": report.p95_ms,
        "errors": errors,
        "passed": refused.returncode == 1
        and row_named
        and not after_the_bad_file
        and added == [rows, 0]
        and not errors,
    }


def write(path: Path, texts: list[str]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(["key", "text", "group"])
        table.writerows([f"new-{number}", text, GROUP] for number, text in enumerate(texts, start=1))
    return path


def imported(installation: Installation) -> int:
    return int(database.query(installation.database, IMPORTED)[0][0])
