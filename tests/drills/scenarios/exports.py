"""The export drill: every file exported while people judge and the model updates is consistent as of one event.

The crowd aims at fifty answers per second; the figures include the rate that the machine reached. Exports read small
pages, so that answers are written between any two of them.
"""

import json
import time
from typing import Any

from benchmarks.load import database
from benchmarks.load.crowd import Crowd
from benchmarks.load.installation import Installation
from benchmarks.load.waiting import wait_until

SLUG = "drill"
ANSWERS_BEFORE, ANSWERS_BETWEEN = 20, 10  # before the first export, and at least between two
RATE = 50  # answers per second
PAGE_SIZE = 20
SECONDS = 600
CLIENTS = 24
ROWS = (
    "SELECT j.sequence FROM annotation_judgement j JOIN annotation_project p ON p.id = j.project_id WHERE p.slug = '{}'"
)


def drill(installation: Installation, *, exports: int, clients: int, items: int, seed: int) -> dict[str, Any]:
    """Run the drill on this empty installation and return its figures."""
    installation.prepare(SLUG, items=items, update_batch=50)
    with installation:
        installation.start()
        crowd = Crowd(installation, SLUG, clients, seed, rate=RATE)
        crowd.join()
        with crowd.answering(10**9):
            wait_until(lambda: crowd.acknowledged >= ANSWERS_BEFORE, SECONDS, "the crowd stopped")
            began, before = time.perf_counter(), crowd.acknowledged
            done = installation.manage(
                "shell", "--no-imports", "-c", f"from tests.drills.scenarios.exports import *; run_exports({exports})"
            )
            rate = (crowd.acknowledged - before) / (time.perf_counter() - began)
            crowd.stop()
    if done.returncode:
        raise RuntimeError(done.stderr)
    results: list[dict[str, Any]] = json.loads(done.stdout.strip().splitlines()[-1])
    sequences = [sequence for (sequence,) in database.query(installation.database, ROWS.format(SLUG))]
    consistent = [
        each for each in results if each["rows"] == sum(sequence <= each["as_of_seq"] for sequence in sequences)
    ]
    return {
        "drill": "exports while people judge",
        "database": "postgresql" if installation.database_url else "sqlite",
        "answers": len(sequences),
        "answers_per_second": round(rate, 1),
        "answers_per_second_wanted": RATE,
        "answers_while_an_export_was_read": sum(each["meanwhile"] for each in results),
        "exports": len(results),
        "points": len({each["as_of_seq"] for each in results}),
        "consistent": len(consistent),
        "same_bytes_at_the_same_point": sum(each["same_bytes"] for each in results),
        "same_content_as_json": sum(each["same_content"] for each in results),
        "passed": len(consistent) == len(results) == exports
        and all(each["same_bytes"] and each["same_content"] for each in results),
    }


def run_exports(exports: int) -> None:
    """Print a description of each export as JSON; runs in a process of the installation while answers arrive."""
    from annotation.models import Project
    from modelling.exports.points import resolve_point
    from modelling.exports.tables import judgements

    judgements.PAGE_SIZE = PAGE_SIZE
    project, results, last = Project.objects.get(slug=SLUG), [], 0
    wait_until(lambda: resolve_point(project).version, SECONDS, "no first version")
    for _ in range(exports):
        wait_until(lambda last=last: _head(project) >= last + ANSWERS_BETWEEN, SECONDS, "no more answers")
        last = _head(project)
        results.append(_check_export(project))
    print(json.dumps(results))  # noqa: T201


def _head(project: Any) -> int:
    from modelling.training.inputs import get_read_point

    return get_read_point(project).sequence


def _check_export(project: Any) -> dict[str, Any]:
    """Export while an answer is written, then export the same point again and as JSON."""
    from modelling.exports.catalogue import build_export
    from modelling.exports.points import resolve_point
    from tests.modelling.exports.samples import csv_rows

    def content(point: Any, format: str) -> bytes:
        return b"".join(build_export(point, "judgements", format).chunks())

    point = resolve_point(project)
    chunks = build_export(point, "judgements", "csv").chunks()
    start = next(chunks)
    wait_until(lambda: _head(project) > point.sequence, SECONDS, "no more answers")
    first, head = start + b"".join(chunks), _head(project)
    same_point = resolve_point(project, as_of=point.sequence, version=point.version)
    table = json.loads(content(same_point, "json"))
    cells = [{name: "" if cell is None else str(cell).lower() for name, cell in row.items()} for row in table["rows"]]
    rows = csv_rows(first)
    return {
        "as_of_seq": table["as_of_seq"],
        "rows": len(rows),
        "meanwhile": head - point.sequence,
        "same_bytes": first == content(same_point, "csv"),
        "same_content": cells == [{name: cell.lower() for name, cell in row.items()} for row in rows],
    }


if __name__ == "__main__":
    import sys
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory(prefix="concord-drill-") as folder:
        figures = drill(Installation(Path(folder)), exports=20, clients=CLIENTS, items=400, seed=1)
    sys.stdout.write(json.dumps(figures) + "\n")
    sys.exit(0 if figures["passed"] else 1)
