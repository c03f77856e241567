"""What drills share: a real Concord on the database under test."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.drills.database import fresh_postgres
from tests.drills.install import Install


@pytest.fixture
def install(tmp_path: Path) -> Iterator[Install]:
    """An empty Concord on the database under test."""
    if server := os.environ.get("DATABASE_URL"):
        with fresh_postgres(server) as address:
            yield Install(tmp_path, address)
    else:
        yield Install(tmp_path)
