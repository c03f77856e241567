"""Exports of a million judgements: speed, duration and memory; and judging while the updater writes an export.

Each file is written by its own process, so that its memory can be measured; idle memory is that before the export
begins. Judging is measured on the embedded profile with the real updater: the same load without and with queued export
jobs of the large study, three rounds; the median ratio counts. The load generator runs on the same cores, and the CPU
share of all other processes is reported in parts of one core: figures from a busy machine mean little. Run it at normal
priority: the updater raises its niceness by 10, which it cannot do from 19. `niceness` records how it was run.
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

from benchmarks.harness import arguments, peak_megabytes, print_progress, publish
from benchmarks.load.installation import Installation
from benchmarks.load.send_log import SendLog
from benchmarks.server import judging_load

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
    """Size of the study, and the load during its exports."""

    judgements: int = 1_000_000
    items: int = 1000
    workers: int = 2000
    rounds: int = 3
    load: judging_load.Plan = field(
        default_factory=lambda: judging_load.Plan(rate=20, seconds=30, workers=50, items=200)
    )


QUICK = Plan(judgements=300, items=10, workers=5, rounds=1, load=judging_load.QUICK)


def main(argv: Sequence[str] | None = None) -> None:
    """Measure the files, and judging while they are written."""
    parser = arguments(__doc__)
    parser.add_argument("--judgements", type=int, help="number of judgements in the large study")
    parser.add_argument("--without-load", action="store_true", help="measure only the files")
    options = parser.parse_args(argv)
    plan = QUICK if options.quick else Plan(judgements=options.judgements or Plan.judgements)
    publish(NAME, measure(plan, with_load=not options.without_load), options)


def measure(plan: Plan, *, with_load: bool) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="concord-export-") as folder, Installation(Path(folder)) as installation:
        installation.prepare(judging_load.SLUG, items=plan.load.items, redundancy=judging_load.REDUNDANCY)
        shell(installation, f"fill({SLUG!r}, {plan.judgements}, {plan.items}, {plan.workers})")
        print_progress(f"{plan.judgements:,} judgements created")
        files = {name: json.loads(shell(installation, f"measure_format({SLUG!r}, {name!r})")) for name in FORMATS}
        for name, figures in files.items():
            print_progress(f"{name}: {figures['seconds']:.1f} s, {figures['megabytes_above_idle']:.0f} MB above idle")
        judging = judging_during_exports(installation, plan) if with_load else None
    niceness = os.getpriority(os.PRIO_PROCESS, 0)
    return {"plan": asdict(plan), "targets": TARGETS, "niceness": niceness, "files": files, "judging": judging}


def shell(installation: Installation, call: str) -> str:
    """Call a function of this module in a process of the installation and return its output."""
    return installation.run_python(f"from benchmarks.server.export import *; {call}").strip()


def judging_during_exports(installation: Installation, plan: Plan) -> dict[str, Any]:
    """Run the same load alternately without and with export jobs; report the median ratio over the rounds."""
    installation.start()
    rounds = []
    with SendLog(installation.folder / "sends.csv") as send_log:
        for number in range(plan.rounds):
            alone = measure_judging(installation, send_log, plan, seed=2 * number + 1)
            shell(installation, f"queue_jobs({SLUG!r})")
            beside = measure_judging(installation, send_log, plan, seed=2 * number + 2)
            begun = int(shell(installation, "delete_jobs()"))
            ratio = beside["p95_ms"] / max(alone["p95_ms"], 1e-9)
            rounds.append({"alone": alone, "beside_exports": beside, "exports_begun": begun, "p95_over": ratio})
    return {"p95_over": median(each["p95_over"] for each in rounds), "rounds": rounds}


def measure_judging(installation: Installation, send_log: SendLog, plan: Plan, seed: int) -> dict[str, Any]:
    """Return response times, and the CPU use of the updater and of all other processes in units of one core."""
    before, began = judging_load.cpu_seconds(installation), time.perf_counter()
    report = judging_load.open_loop(installation, send_log, plan.load, seed)
    spent, seconds = judging_load.cpu_seconds(installation) - before, time.perf_counter() - began
    return {
        **asdict(report),
        "errors": sum(count for status, count in report.statuses.items() if status not in (200, 201)),
        "updater_cpu_share": spent[1] / seconds,
        "others_cpu_share": (spent[3] - spent[:3].sum()) / seconds,
    }


# Called in processes of the installation


def fill(slug: str, judgements: int, items: int, workers: int) -> None:
    """Create a closed study with this many judgements, inserted in bulk; every hundredth is a tie."""
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
    # The model of this study is not measured: mark it as up to date.
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


def measure_format(slug: str, format: str) -> None:
    """Write the judgements in this format; print the seconds and the memory that it takes."""
    from annotation.models import Project
    from modelling.exports import formats
    from modelling.exports.points import resolve_point
    from modelling.exports.tables.judgements import judgements

    project = Project.objects.get(slug=slug)
    if format == "parquet":
        formats.import_pyarrow()  # loading the library is not part of the export
    table = judgements(resolve_point(project))
    with tempfile.TemporaryFile() as file:
        idle, clock, cpu = peak_megabytes(), time.perf_counter(), time.process_time()
        formats.write_table(table, format, file)
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


def queue_jobs(slug: str) -> None:
    """Queue export jobs, each as of a different point in the log."""
    from annotation.models import Project
    from modelling.exports.points import resolve_point
    from modelling.exports.service import ExportRequest

    project = Project.objects.get(slug=slug)
    last = resolve_point(project).sequence
    for number in range(JOBS_AT_ONCE):
        ExportRequest(project, None, "judgements", "csv", as_of=last - number).queue()


def delete_jobs() -> None:
    """Print how many jobs were started, and delete them all, which also stops the running one."""
    from modelling.models import ExportJob

    print(ExportJob.objects.exclude(state=ExportJob.State.WAITING).count())
    ExportJob.objects.all().delete()


if __name__ == "__main__":
    main()
