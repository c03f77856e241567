"""Threads that write wait for each other here, not in SQLite.

SQLite has one writer at a time, and lets whoever finds it taken sleep, longer each time, while others overtake them.
"""

import threading
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from django.db import connection, transaction

P = ParamSpec("P")
T = TypeVar("T")

_turn = threading.Lock()


def one_at_a_time(work: Callable[P, T]) -> Callable[P, T]:
    """The work in one transaction; on SQLite, when no other thread of this process is at such work."""
    in_a_transaction = transaction.atomic(work)

    @wraps(work)
    def in_turn(*args: P.args, **kwargs: P.kwargs) -> T:
        if connection.vendor != "sqlite":
            return in_a_transaction(*args, **kwargs)
        with _turn:
            return in_a_transaction(*args, **kwargs)

    return in_turn
