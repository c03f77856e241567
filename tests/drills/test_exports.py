"""Files that come and go while people judge. Short here; the promised numbers with DRILLS=long (`make drills`)."""

import json
import os
import sys
from typing import Any

import pytest

from tests.drills import exports, imports
from tests.drills.install import Install

pytestmark = [pytest.mark.slow, pytest.mark.database]

LONG = os.environ.get("DRILLS") == "long"
EXPORTS, CLIENTS, ITEMS = (20, exports.CLIENTS, 400) if LONG else (3, 3, 40)
ROWS = 10_000 if LONG else 200


def told(figures: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """The figures of a long drill are printed: they say more than that it passed."""
    if LONG:
        with capsys.disabled():
            sys.stdout.write(json.dumps(figures) + "\n")
    return figures


def test_every_export_taken_while_people_judge_is_one_moment(
    install: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    """P15."""
    figures = told(exports.drill(install, exports=EXPORTS, clients=CLIENTS, items=ITEMS, seed=1), capsys)
    assert figures["passed"], figures
    assert figures["moments"] == EXPORTS
    assert figures["answers_while_an_export_was_read"] > 0


def test_an_import_is_all_or_nothing_and_repeatable_while_people_judge(
    install: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    """P14."""
    figures = told(imports.drill(install, rows=ROWS, clients=CLIENTS, seed=1), capsys)
    assert figures["passed"], figures
    assert (figures["after_the_bad_file"], figures["added"]) == (0, [ROWS, 0])
