"""Threads that keep reading the current version and record every inconsistency."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from django.db import connection

from annotation.models import Project
from modelling.models import ConsensusScore, UpdateState
from modelling.training.storage import array_store

INTERVAL = 0.02 if os.environ.get("DRILLS") == "long" else 0.1  # seconds; 50 reads per second at full size


@dataclass
class Readings:
    """What the readers saw; `errors` must stay empty."""

    count: int = 0
    newest: int = 0
    errors: list[str] = field(default_factory=list)
    rows: dict[int, tuple[object, ...]] = field(default_factory=dict)


@contextmanager
def reading(project: Project, readers: int, items: int) -> Iterator[Readings]:
    """Read in `readers` threads while the block runs."""
    readings, done = Readings(), threading.Event()

    def work() -> None:
        newest = 0
        try:
            while not done.wait(INTERVAL):
                newest = read_version(project, items, newest, readings)
        except Exception as error:
            readings.errors.append(f"a reader failed: {error!r}")
        finally:
            connection.close()

    threads = [threading.Thread(target=work, daemon=True) for _ in range(readers)]
    for thread in threads:
        thread.start()
    try:
        yield readings
    finally:
        done.set()
        for thread in threads:
            thread.join(timeout=30)


def read_version(project: Project, items: int, newest: int, readings: Readings) -> int:
    """Read what a page reads: the pointer to the current version, then the scores and arrays of that version."""
    current = UpdateState.objects.select_related("current").get(project=project).current
    if current is None:
        if newest:
            readings.errors.append(f"version {newest} disappeared")
        return newest
    if current.number < newest:
        readings.errors.append(f"version {current.number} followed {newest}")
    rows = tuple(ConsensusScore.objects.filter(snapshot=current).order_by("rank").values_list("rank", "item", "mean"))
    if [row[0] for row in rows] != list(range(1, items + 1)):
        readings.errors.append(f"version {current.number} has {len(rows)} of {items} scores")
    if readings.rows.setdefault(current.number, rows) != rows:
        readings.errors.append(f"version {current.number} has changed")
    try:
        array_store.load(project, current.checksum)
    except array_store.DamagedArrays:
        readings.errors.append(f"the arrays of version {current.number} are damaged")
    readings.count += 1
    readings.newest = max(readings.newest, current.number)
    return int(current.number)
