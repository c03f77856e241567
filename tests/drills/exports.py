"""The export drill (P15): people judge, the model learns, and every export taken meanwhile is one moment.

Fifty answers a second are begun; what was reached is reported, and depends on the machine. Exports read small pages, so
that people write between any two of them.
"""

import json
import time
from typing import Any

from tests.drills import database
from tests.drills.crowd import Crowd
from tests.drills.install import Install
from tests.drills.waiting import wait_until

SLUG = "drill"
BEFORE, BETWEEN = 20, 10  # answers before the first export and, at least, between two
RATE = 50  # answers in a second
ROWS_AT_A_TIME = 20
SECONDS = 600
CLIENTS = 24
ROWS = (
    "SELECT j.sequence FROM annotation_judgement j JOIN annotation_project p ON p.id = j.project_id WHERE p.slug = '{}'"
)


def drill(install: Install, *, exports: int, clients: int, items: int, seed: int) -> dict[str, Any]:
    """Figures of one whole drill on this empty install."""
    install.prepare(SLUG, items=items, update_batch=50)
    with install:
        install.start()
        crowd = Crowd(install, SLUG, clients, seed, rate=RATE)
        crowd.join()
        with crowd.answering(10**9):
            wait_until(lambda: crowd.acknowledged >= BEFORE, SECONDS, "the crowd stopped")
            began, before = time.perf_counter(), crowd.acknowledged
            done = install.manage("shell", "--no-imports", "-c", f"from tests.drills.exports import *; take({exports})")
            rate = (crowd.acknowledged - before) / (time.perf_counter() - began)
            crowd.stop()
    if done.returncode:
        raise RuntimeError(done.stderr)
    taken: list[dict[str, Any]] = json.loads(done.stdout.strip().splitlines()[-1])
    sequences = [sequence for (sequence,) in database.query(install.database, ROWS.format(SLUG))]
    whole = [each for each in taken if each["rows"] == sum(sequence <= each["as_of_seq"] for sequence in sequences)]
    return {
        "drill": "exports while people judge (P15)",
        "database": "postgresql" if install.database_url else "sqlite",
        "answers": len(sequences),
        "answers_per_second": round(rate, 1),
        "answers_per_second_wanted": RATE,
        "answers_while_an_export_was_read": sum(each["meanwhile"] for each in taken),
        "exports": len(taken),
        "moments": len({each["as_of_seq"] for each in taken}),
        "one_moment": len(whole),
        "same_bytes_at_the_same_point": sum(each["same_bytes"] for each in taken),
        "json_says_the_same": sum(each["same_content"] for each in taken),
        "passed": len(whole) == len(taken) == exports
        and all(each["same_bytes"] and each["same_content"] for each in taken),
    }


def take(exports: int) -> None:
    """In a process of the install: prints what each of so many exports held, each of a log that has moved on."""
    from annotation.models import Project
    from modelling.exporting import events, point_of

    events.PAGE = ROWS_AT_A_TIME
    project, taken, last = Project.objects.get(slug=SLUG), [], 0
    wait_until(lambda: point_of(project).version, SECONDS, "there was no first version, so that a point has no name")
    for _ in range(exports):
        wait_until(lambda last=last: _head(project) >= last + BETWEEN, SECONDS, "nobody judges any more")
        last = _head(project)
        taken.append(_one(project))
    print(json.dumps(taken))  # noqa: T201


def _head(project: Any) -> int:
    from modelling.inputs import moment_of

    return moment_of(project).sequence


def _one(project: Any) -> dict[str, Any]:
    """One export, in the middle of which somebody writes; then the same point again, and as JSON."""
    from modelling.exporting import export_at, point_of
    from tests.modelling.exported import rows_of

    def content(point: Any, format: str) -> bytes:
        return b"".join(export_at(point, "judgements", format).pieces())

    point = point_of(project)
    pieces = iter(export_at(point, "judgements", "csv").pieces())
    begun = next(pieces)
    wait_until(lambda: _head(project) > point.sequence, SECONDS, "nobody judges any more")
    first, moved = begun + b"".join(pieces), _head(project)
    named = point_of(project, as_of=point.sequence, version=point.version)
    told = json.loads(content(named, "json"))
    said = [{name: "" if cell is None else str(cell).lower() for name, cell in row.items()} for row in told["rows"]]
    rows = rows_of(first)
    return {
        "as_of_seq": told["as_of_seq"],
        "rows": len(rows),
        "meanwhile": moved - point.sequence,
        "same_bytes": first == content(named, "csv"),
        "same_content": said == [{name: cell.lower() for name, cell in row.items()} for row in rows],
    }


if __name__ == "__main__":
    import sys
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory(prefix="concord-drill-") as folder:
        figures = drill(Install(Path(folder)), exports=20, clients=CLIENTS, items=400, seed=1)
    sys.stdout.write(json.dumps(figures) + "\n")
    sys.exit(0 if figures["passed"] else 1)
