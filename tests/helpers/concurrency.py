"""Run several calls at the same time, each in its own thread."""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from django.db import connection

T = TypeVar("T")


def run_concurrently(calls: Sequence[Callable[[], T]]) -> list[T]:
    """Start all calls at once and return their results; raise the first error after all have ended."""
    ready = threading.Barrier(len(calls))

    def one(call: Callable[[], T]) -> T:
        try:
            ready.wait(timeout=300)
            return call()
        finally:
            connection.close()

    with ThreadPoolExecutor(len(calls)) as pool:
        return [future.result() for future in [pool.submit(one, call) for call in calls]]


def is_waiting() -> bool:
    """Whether another transaction waits for this one; on SQLite it waits before its first query."""
    if connection.vendor == "sqlite":
        return True
    with connection.cursor() as cursor:
        cursor.execute("SELECT EXISTS (SELECT 1 FROM pg_locks WHERE NOT granted)")
        return bool(cursor.fetchone()[0])


def timed(call: Callable[[], T]) -> Callable[[], tuple[T, float]]:
    """Wrap a call so that it also returns its wall seconds."""

    def measured() -> tuple[T, float]:
        began = time.perf_counter()
        return call(), time.perf_counter() - began

    return measured
