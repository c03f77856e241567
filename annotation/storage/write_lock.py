"""A process-wide write lock for SQLite.

SQLite allows one writer at a time, and a waiting writer sleeps longer and longer while others overtake it. Threads
that wait for a lock in the process are served fairly.
"""

import threading
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from django.conf import settings
from django.db import OperationalError, connection, transaction

P = ParamSpec("P")
T = TypeVar("T")

_lock = threading.Lock()


def serialise_writes(function: Callable[P, T]) -> Callable[P, T]:
    """Run the function in a transaction; on SQLite only one thread of the process at a time."""
    atomic = transaction.atomic(function)

    @wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> T:
        if connection.vendor != "sqlite":
            return atomic(*args, **kwargs)
        if not _lock.acquire(timeout=settings.REQUEST_LOCK_SECONDS):
            raise OperationalError("another write in this process is taking too long")
        try:
            return atomic(*args, **kwargs)
        finally:
            _lock.release()

    return wrapper
