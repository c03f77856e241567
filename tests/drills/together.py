"""Several callers at the same moment, each in a thread of its own."""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from django.db import connection

T = TypeVar("T")


def together(calls: Sequence[Callable[[], T]]) -> list[T]:
    """What each call returned; all begin when the last is ready. The first error is raised after all have ended."""
    ready = threading.Barrier(len(calls))

    def one(call: Callable[[], T]) -> T:
        try:
            ready.wait(timeout=60)
            return call()
        finally:
            connection.close()

    with ThreadPoolExecutor(len(calls)) as pool:
        return [future.result() for future in [pool.submit(one, call) for call in calls]]


def timed(call: Callable[[], T]) -> Callable[[], tuple[T, float]]:
    """The same call, returning how many seconds it took as well."""

    def measured() -> tuple[T, float]:
        began = time.perf_counter()
        return call(), time.perf_counter() - began

    return measured
