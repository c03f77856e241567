"""The export drill in its short form. `python -m tests.drills.exports` takes twenty under load."""

from pathlib import Path

import pytest

from tests.drills.exports import drill
from tests.drills.install import Install


@pytest.mark.slow
def test_every_export_taken_while_people_judge_is_one_moment(tmp_path: Path) -> None:
    """P15."""
    figures = drill(Install(tmp_path), exports=3, clients=3, items=40, seed=1)
    assert figures["passed"], figures
    assert figures["moments"] == 3
