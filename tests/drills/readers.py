"""Readers who look at the current version again and again, and remember everything that was not whole."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from django.db import connection

from annotation.models import Project
from modelling import arrays
from modelling.models import ConsensusScore, UpdateState

FIFTY_A_SECOND = 0.02


@dataclass
class Seen:
    """What readers saw. `wrong` must stay empty."""

    looks: int = 0
    newest: int = 0
    wrong: list[str] = field(default_factory=list)
    rows: dict[int, tuple[object, ...]] = field(default_factory=dict)


@contextmanager
def reading(project: Project, readers: int, items: int) -> Iterator[Seen]:
    """While the block runs, so many readers look fifty times a second each."""
    seen, done = Seen(), threading.Event()

    def work() -> None:
        newest = 0
        try:
            while not done.wait(FIFTY_A_SECOND):
                newest = look(project, items, newest, seen)
        except Exception as error:
            seen.wrong.append(f"a reader failed: {error!r}")
        finally:
            connection.close()

    threads = [threading.Thread(target=work, daemon=True) for _ in range(readers)]
    for thread in threads:
        thread.start()
    try:
        yield seen
    finally:
        done.set()
        for thread in threads:
            thread.join(timeout=30)


def look(project: Project, items: int, newest: int, seen: Seen) -> int:
    """One page's worth: the pointer, then everything under the number it gave."""
    current = UpdateState.objects.select_related("current").get(project=project).current
    if current is None:
        if newest:
            seen.wrong.append(f"there was a version {newest}, and then there was none")
        return newest
    if current.number < newest:
        seen.wrong.append(f"version {current.number} came after {newest}")
    rows = tuple(ConsensusScore.objects.filter(snapshot=current).order_by("rank").values_list("rank", "item", "mean"))
    if [row[0] for row in rows] != list(range(1, items + 1)):
        seen.wrong.append(f"version {current.number} has {len(rows)} of {items} scores")
    if seen.rows.setdefault(current.number, rows) != rows:
        seen.wrong.append(f"version {current.number} has changed")
    try:
        arrays.load(project, current.checksum)
    except arrays.Damaged:
        seen.wrong.append(f"the arrays of version {current.number} are not whole")
    seen.looks += 1
    seen.newest = max(seen.newest, current.number)
    return int(current.number)
