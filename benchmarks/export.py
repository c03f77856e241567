"""Exports of a million judgements: rows a second, seconds, memory above idle; and judging while the updater writes one.

Each file is written by a process of its own, so that its memory is its own; idle is what that process holds before it
begins. Judging is measured on the embedded profile with the real updater: the same load without and with export jobs of
the large study that follow each other, three times in turns; the median ratio counts. The load generator runs on the
same cores, and what everything else on the machine used is reported in parts of one core: figures from a machine that
others were using say little. Run it at normal priority: the updater steps back by 10, which it cannot do from 19, where
judging has no precedence any more. `niceness` says how it was run.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks import judging_load
from benchmarks.harness import arguments, peak_megabytes, publish, tell
from tests.drills.install import Install
from tests.drills.ledger import Ledger

if TYPE_CHECKING:
    from annotation.models import Project

NAME = "export"
SLUG = "large"
FORMATS = ("csv", "jsonl", "parquet")
JOBS_AT_ONCE = 20  # so that the updater does not run out of them during the load
INSERTED_AT_ONCE = 50_000
TARGETS = {"csv_rows_per_second": 40_000, "csv_megabytes_above_idle": 150, "parquet_seconds": 10, "p95_over": 1.5}
INSERT = """
INSERT INTO annotation_judgement (uuid, project_id, worker_id, item_lo_id, item_hi_id, round, choice, skip_reason,
    lo_was_left, source, response_ms, clock_doubtful, late, sequence, previous_hash, hash, created_at)
VALUES (%s, %s, %s, %s, %s, %s, %s, '', %s, 'simulated', %s, %s, %s, %s, '', '', %s)
"""


@dataclass(frozen=True)
class Plan:
    """How large the study is, and how long people judge beside its exports."""

    judgements: int = 1_000_000
    items: int = 1000
    workers: int = 2000
    rounds: int = 3
    load: judging_load.Plan = field(
        default_factory=lambda: judging_load.Plan(rate=20, seconds=30, workers=50, items=200)
    )


QUICK = Plan(judgements=300, items=10, workers=5, rounds=1, load=judging_load.QUICK)


def main(argv: Sequence[str] | None = None) -> None:
    """Prints what the files cost, and what judging felt of them."""
    parser = arguments(__doc__)
    parser.add_argument("--judgements", type=int, help="how many the large study has")
    parser.add_argument("--without-load", action="store_true", help="only the files")
    options = parser.parse_args(argv)
    plan = QUICK if options.quick else Plan(judgements=options.judgements or Plan.judgements)
    publish(NAME, measure(plan, with_load=not options.without_load), options)


def measure(plan: Plan, *, with_load: bool) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="concord-export-") as folder, Install(Path(folder)) as install:
        install.prepare(judging_load.SLUG, items=plan.load.items, redundancy=judging_load.REDUNDANCY)
        shell(install, f"fill({SLUG!r}, {plan.judgements}, {plan.items}, {plan.workers})")
        tell(f"{plan.judgements:,} judgements are there")
        files = {name: json.loads(shell(install, f"told({SLUG!r}, {name!r})")) for name in FORMATS}
        for name, figures in files.items():
            tell(f"{name}: {figures['seconds']:.1f} s, {figures['megabytes_above_idle']:.0f} MB above idle")
        judging = beside_judging(install, plan) if with_load else None
    niceness = os.getpriority(os.PRIO_PROCESS, 0)
    return {"plan": asdict(plan), "targets": TARGETS, "niceness": niceness, "files": files, "judging": judging}


def shell(install: Install, call: str) -> str:
    """What a call of a function of this module printed, in a process of the install."""
    done = install.manage("shell", "--no-imports", "-c", f"from benchmarks.export import *; {call}")
    if done.returncode:
        raise RuntimeError(done.stderr)
    return done.stdout.strip()


def beside_judging(install: Install, plan: Plan) -> dict[str, Any]:
    """The same load without an export and with one always under way, in turns; the median of the rounds counts."""
    install.start()
    rounds = []
    with Ledger(install.folder / "ledger.csv") as ledger:
        for number in range(plan.rounds):
            alone = judged(install, ledger, plan, seed=2 * number + 1)
            shell(install, f"ask({SLUG!r})")
            beside = judged(install, ledger, plan, seed=2 * number + 2)
            begun = int(shell(install, "stop()"))
            ratio = beside["p95_ms"] / max(alone["p95_ms"], 1e-9)
            rounds.append({"alone": alone, "beside_exports": beside, "exports_begun": begun, "p95_over": ratio})
    return {"p95_over": median(each["p95_over"] for each in rounds), "rounds": rounds}


def judged(install: Install, ledger: Ledger, plan: Plan, seed: int) -> dict[str, Any]:
    """What the load saw, and what the updater and everything else used meanwhile, in parts of one core."""
    before, began = judging_load.spending(install), time.perf_counter()
    report = judging_load.open_loop(install, ledger, plan.load, seed)
    spent, seconds = judging_load.spending(install) - before, time.perf_counter() - began
    return {
        **asdict(report),
        "errors": sum(count for status, count in report.statuses.items() if status not in (200, 201)),
        "updater_cpu_share": spent[1] / seconds,
        "others_cpu_share": (spent[3] - spent[:3].sum()) / seconds,
    }


# In processes of the install ------------------------------------------------------------------------------------------


def fill(slug: str, judgements: int, items: int, workers: int) -> None:
    """A closed study with so many judgements, inserted in bulk; every hundredth is a tie."""
    from django.db import connection, transaction

    from annotation import services
    from annotation.models import EventHead, Item, Worker

    project = services.create_project(owner=None, slug=slug, title="Large", state="closed")
    Item.objects.bulk_create([Item(project=project, key=f"item-{n}", text=f"Text {n}.") for n in range(items)])
    Worker.objects.bulk_create([Worker(project=project) for _ in range(workers)])
    rows = _rows(
        project,
        list(project.items.values_list("pk", flat=True)),
        list(project.workers.values_list("pk", flat=True)),
        judgements,
    )
    for _ in range(0, judgements, INSERTED_AT_ONCE):
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.executemany(INSERT, list(islice(rows, INSERTED_AT_ONCE)))
    EventHead.objects.filter(project=project).update(sequence=judgements)
    # The model of this study is of no interest here: its updater believes that it has learned everything.
    from modelling.models import UpdateState

    UpdateState.objects.update_or_create(project=project, defaults={"done_sequence": judgements})


def _rows(project: Project, items: list[int], workers: list[int], count: int) -> Iterator[tuple[Any, ...]]:
    at = datetime(2026, 1, 1, tzinfo=UTC).replace(tzinfo=None)
    for number in range(1, count + 1):
        lo = number % (len(items) - 1)
        hi = lo + 1 + number // len(items) % (len(items) - 1 - lo)
        choice = "tie" if number % 100 == 0 else "lo" if number % 3 else "hi"
        worker, side = workers[number % len(workers)], bool(number % 2)
        name = uuid.UUID(int=number).hex
        yield (name, project.pk, worker, items[lo], items[hi], number, choice, side, 900, False, False, number, at)


def told(slug: str, format: str) -> None:
    """Prints what writing the judgements in this format costs this process."""
    from annotation.models import Project
    from modelling import exporting
    from modelling.exporting import formats

    project = Project.objects.get(slug=slug)
    if format == "parquet":
        formats.arrow()  # a library that is loaded is no memory of the export
    table = exporting.table(project, "judgements")
    with tempfile.TemporaryFile() as file:
        idle, clock, cpu = peak_megabytes(), time.perf_counter(), time.process_time()
        exporting.write(table, format, file)
        seconds, cpu = time.perf_counter() - clock, time.process_time() - cpu
        figures = {
            "rows": table.size,
            "megabytes": file.tell() / 1e6,
            "seconds": seconds,
            "cpu_seconds": cpu,
            "rows_per_second": table.size / seconds,
            "rows_per_cpu_second": table.size / cpu,
            "megabytes_above_idle": peak_megabytes() - idle,
        }
    print(json.dumps(figures))


def ask(slug: str) -> None:
    """Export jobs wait for the updater, each of another point."""
    from annotation.models import Project
    from modelling.exporting import requests
    from modelling.exporting.points import point_of

    project = Project.objects.get(slug=slug)
    last = point_of(project).sequence
    for number in range(JOBS_AT_ONCE):
        point = point_of(project, as_of=last - number)
        requests.ask(project=project, user=None, point=point, what="judgements", format="csv")


def stop() -> None:
    """Prints how many files were begun; none is wanted any more, and whoever writes one finds that out."""
    from modelling.models import ExportJob

    print(ExportJob.objects.exclude(state=ExportJob.State.WAITING).count())
    ExportJob.objects.all().delete()


if __name__ == "__main__":
    main()
