"""A real Concord installation on the database under test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.load.installation import Installation
from tests.helpers.postgres import installation_in


@pytest.fixture
def installation(tmp_path: Path) -> Iterator[Installation]:
    """An empty installation on the database under test."""
    with installation_in(tmp_path) as installation:
        yield installation
