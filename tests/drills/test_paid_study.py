"""A paid study from consent to payment. Short by default; DRILLS=long (`make long-tests`) has 200 participants."""

import json
import os
import sys

import pytest

from benchmarks.load.installation import Installation
from tests.drills.scenarios import paid_study

pytestmark = [pytest.mark.slow, pytest.mark.both_databases]

LONG = os.environ.get("DRILLS") == "long"
PARTICIPANTS, CLIENTS = (200, 8) if LONG else (20, 4)


def test_every_outcome_count_arm_and_cost_of_a_paid_study_is_right(
    installation: Installation, capsys: pytest.CaptureFixture[str]
) -> None:
    figures = paid_study.drill(installation, participants=PARTICIPANTS, clients=CLIENTS)
    if LONG:
        with capsys.disabled():
            sys.stdout.write(json.dumps(figures) + "\n")
    assert figures["passed"], figures["differences"]
    tenth = PARTICIPANTS // 20
    assert figures["outcomes"] == {
        "finished": 13 * tenth, "failed_checks": 2 * tenth, "left": 2 * tenth, "returned": tenth, "stopped": tenth,
        "declined": tenth,
    }  # fmt: skip
    assert figures["cost"] == str(paid_study.REWARD * 13 * tenth)
