"""The import drill (P14): people judge; one bad row and nothing is imported, a good file twice is a good file once."""

import csv
import json
import time
from pathlib import Path
from typing import Any

from tests.drills import database
from tests.drills.crowd import Crowd
from tests.drills.install import Install
from tests.drills.waiting import wait_until

SLUG, GROUP = "drill", "imported"
RATE = 20  # answers in a second
BEFORE, SECONDS = 20, 600
IMPORTED = f"SELECT COUNT(*) FROM annotation_item i WHERE i.{{group}} = '{GROUP}'"


def drill(install: Install, *, rows: int, clients: int, seed: int) -> dict[str, Any]:
    """Figures of one whole drill on this empty install. The last row but one of the bad file has no text."""
    install.prepare(SLUG, items=200, update_batch=50)
    texts = [f"An imported argument, number {number}." for number in range(1, rows + 1)]
    good = write(install.folder / "good.csv", texts)
    bad = write(install.folder / "bad.csv", [*texts[:-2], "", texts[-1]])
    with install:
        install.start()
        crowd = Crowd(install, SLUG, clients, seed, rate=RATE)
        crowd.join()
        began, cpu = time.perf_counter(), time.process_time()
        with crowd.answering(10**9):
            wait_until(lambda: crowd.acknowledged >= BEFORE, SECONDS, "the crowd stopped")
            refused = install.manage("import_items", SLUG, str(bad))
            after_the_bad_file = imported(install)
            taken = [json.loads(install.do("import_items", SLUG, str(good), "--json")) for _ in range(2)]
            crowd.stop()
        report = crowd.report(time.perf_counter() - began, time.process_time() - cpu)
    errors = sum(count for status, count in report.statuses.items() if status >= 500 or status == 0)
    named = f"line {rows}" in refused.stderr.lower() and "text" in refused.stderr
    added = [each["added"] for each in taken]
    return {
        "drill": "imports while people judge (P14)",
        "database": "postgresql" if install.database_url else "sqlite",
        "rows": rows,
        "refusal": refused.stderr.strip(),
        "after_the_bad_file": after_the_bad_file,
        "added": added,
        "answers": report.answers,
        "answers_per_second": report.per_second,
        "answers_per_second_wanted": RATE,
        "p95_ms": report.p95_ms,
        "errors": errors,
        "passed": refused.returncode == 1 and named and not after_the_bad_file and added == [rows, 0] and not errors,
    }


def write(path: Path, texts: list[str]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(["key", "text", "group"])
        table.writerows([f"new-{number}", text, GROUP] for number, text in enumerate(texts, start=1))
    return path


def imported(install: Install) -> int:
    return int(database.query(install.database, IMPORTED.format(group='"group"'))[0][0])
