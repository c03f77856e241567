"""Exports and imports while people judge. Short by default; DRILLS=long (`make long-tests`) runs them at full size."""

import json
import os
import sys
from typing import Any

import pytest

from benchmarks.load.installation import Installation
from tests.drills.scenarios import exports, imports

pytestmark = [pytest.mark.slow, pytest.mark.both_databases]

LONG = os.environ.get("DRILLS") == "long"
EXPORTS, CLIENTS, ITEMS = (20, exports.CLIENTS, 400) if LONG else (3, 3, 40)
ROWS = 10_000 if LONG else 200


def report(figures: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """Print the figures of a long drill."""
    if LONG:
        with capsys.disabled():
            sys.stdout.write(json.dumps(figures) + "\n")
    return figures


def test_every_export_made_while_people_judge_covers_one_point(
    installation: Installation, capsys: pytest.CaptureFixture[str]
) -> None:
    figures = report(exports.drill(installation, exports=EXPORTS, clients=CLIENTS, items=ITEMS, seed=1), capsys)
    assert figures["passed"], figures
    assert figures["points"] == EXPORTS
    assert figures["answers_while_an_export_was_read"] > 0


def test_an_import_is_all_or_nothing_and_repeatable_while_people_judge(
    installation: Installation, capsys: pytest.CaptureFixture[str]
) -> None:
    figures = report(imports.drill(installation, rows=ROWS, clients=CLIENTS, seed=1), capsys)
    assert figures["passed"], figures
    assert (figures["after_the_bad_file"], figures["added"]) == (0, [ROWS, 0])
