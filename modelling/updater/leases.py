"""Leases on rows: claimed by a conditional UPDATE, extended while work goes on, and required for every write.

Updates, jobs and webhook deliveries all use this mechanism. A killed process stops extending its lease; once that has
expired, another process can claim the row, and from then on the first one can no longer write to it.
"""

import os
import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from functools import cache
from hashlib import sha256
from pathlib import Path
from threading import Event, Thread
from typing import Any, TypeVar

from django.apps import apps
from django.db import DatabaseError, connection
from django.db.models import Q, QuerySet
from django.utils import timezone

from modelling.models import LeasedRow, UpdaterBeat

ALIVE = timedelta(seconds=30)
BEAT_SECONDS = 5.0
RELEASED: dict[str, Any] = {"owner": "", "lease_until": None}
R = TypeVar("R", bound=LeasedRow)


class LeaseLost(Exception):
    """The lease was released or taken over by another process; this process's result is discarded."""


def claim(rows: QuerySet[R], row: R, owner: str, **fields: Any) -> bool:
    """Lease a row of `rows` and write `fields`; False if it is no longer free or no longer among `rows`."""
    claimed = rows.filter(free_leases(), pk=row.pk).update(owner=owner, lease_until=_expiry(row), **fields)
    if claimed:
        row.owner = owner
    return bool(claimed)


def free_leases() -> Q:
    """Matches rows that have never been leased, or whose lease was released or has expired."""
    return Q(lease_until=None) | Q(lease_until__lt=timezone.now())


def is_leased(row: LeasedRow) -> bool:
    return row.lease_until is not None and row.lease_until >= timezone.now()


def write(row: LeasedRow, *conditions: Q, **fields: Any) -> None:
    """Update a leased row; raise LeaseLost if it was released, claimed by another process, or fails a condition."""
    leased = type(row)._default_manager.filter(pk=row.pk, owner=row.owner, lease_until__isnull=False)
    if not leased.filter(*conditions).update(**fields):
        raise LeaseLost


def extend(row: LeasedRow, **fields: Any) -> None:
    write(row, lease_until=_expiry(row), **fields)


def release(row: LeasedRow, *conditions: Q, **fields: Any) -> None:
    write(row, *conditions, **RELEASED, **fields)


def expire(row: LeasedRow) -> None:
    """Let others claim the row at once, as if the lease had run out; do nothing if its owner has released it."""
    held = type(row)._default_manager.filter(pk=row.pk, owner=row.owner, lease_until__isnull=False)
    held.update(lease_until=timezone.now() - timedelta(seconds=1))


@contextmanager
def extending(row: LeasedRow) -> Iterator[None]:
    """Extend a lease, and record that this updater is alive, every few seconds from a thread while the block runs.

    The work inside the block need not extend the lease itself. A lost lease ends only the thread; the block notices
    the loss at its next write. Inside a transaction nothing is extended, because other connections cannot see the
    lease yet.
    """
    if connection.in_atomic_block:
        yield
        return
    stop = Event()
    thread = Thread(target=_extend_until, args=(stop, row), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _extend_until(stop: Event, row: LeasedRow) -> None:
    while not stop.wait(BEAT_SECONDS):
        try:
            record_heartbeat()
            extend(row)
        except LeaseLost:
            break
        except DatabaseError:  # busy or unavailable: try again at the next beat
            connection.close()
    connection.close()


def _expiry(row: LeasedRow) -> datetime:
    return timezone.now() + row.lease_duration


def process_owner() -> str:
    """The owner name of this process: its pid, a random id, and a digest that identifies its pid namespace."""
    return _owner_of(os.getpid())


@cache
def _owner_of(pid: int) -> str:
    return f"{_pid_namespace()}-{pid}-{secrets.token_hex(6)}"


@cache
def _pid_namespace() -> str:
    """A digest of this boot, container and host name; containers may share a host name and use the same pids."""
    parts = [socket.gethostname()]
    with suppress(OSError):  # only Linux has these files
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii"))
        parts.append(os.readlink("/proc/self/ns/pid"))
    return sha256("".join(parts).encode()).hexdigest()[:12]


def release_dead_leases() -> None:
    """Expire the leases of processes that were killed on this machine, so that others can claim the rows at once."""
    here = f"{_pid_namespace()}-"
    for model in apps.get_models():
        if not issubclass(model, LeasedRow):
            continue
        leased = model._default_manager.filter(lease_until__isnull=False)
        for owner in set(leased.filter(owner__startswith=here).values_list("owner", flat=True)):
            pid = owner.removeprefix(here).partition("-")[0]
            if pid.isdigit() and not _is_another_live_process(int(pid)):
                leased.filter(owner=owner).update(lease_until=timezone.now() - timedelta(seconds=1))


def _is_another_live_process(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return pid != os.getpid()


def record_heartbeat() -> None:
    """Record that an updater is alive on this machine."""
    name, now = socket.gethostname()[:80], timezone.now()
    if not UpdaterBeat.objects.filter(name=name).update(seen_at=now):
        UpdaterBeat.objects.update_or_create(name=name, defaults={"seen_at": now})


def updater_is_alive() -> bool:
    return UpdaterBeat.objects.filter(seen_at__gte=timezone.now() - ALIVE).exists()
