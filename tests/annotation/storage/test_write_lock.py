"""On SQLite, only one thread of a process writes at a time."""

from typing import Any

import pytest
from django.db import OperationalError, connection

from annotation.storage import write_lock

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both_databases]


def test_a_serialised_write_holds_the_lock_and_a_transaction() -> None:
    @write_lock.serialise_writes
    def write(answer: int) -> int:
        assert connection.in_atomic_block
        assert write_lock._lock.locked() is (connection.vendor == "sqlite")
        return answer

    assert write(42) == 42
    assert not write_lock._lock.locked()


def test_a_failed_write_releases_the_lock() -> None:
    @write_lock.serialise_writes
    def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        fail()
    assert not write_lock._lock.locked()


def test_a_write_that_waits_too_long_for_another_is_refused(settings: Any) -> None:
    settings.REQUEST_LOCK_SECONDS = 0.05
    if connection.vendor != "sqlite":
        return
    with write_lock._lock, pytest.raises(OperationalError, match="taking too long"):
        write_lock.serialise_writes(lambda: None)()
