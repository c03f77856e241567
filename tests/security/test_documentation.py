"""The tables of docs/security-checks.md and docs/reliability.md name tests and drills that exist."""

import re
from pathlib import Path

import pytest

from tests.drills.faults.__main__ import DRILLS

ROOT = Path(__file__).parents[2]
PAGES = {
    "security-checks.md": [f"S{n}" for n in range(1, 41)],
    "reliability.md": ["P20", "P21", *(f"P{n}" for n in range(35, 44)), "P49", "B59", "B60"],
}
NAMED = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")


@pytest.mark.parametrize("document", PAGES)
def test_every_named_test_exists(document: str) -> None:
    text = (ROOT / "docs" / document).read_text()
    missing = [
        f"{path}::{name}"
        for path, name in NAMED.findall(text)
        if not (ROOT / path).exists() or (name and f"def {name}(" not in (ROOT / path).read_text())
    ]
    assert missing == []


@pytest.mark.parametrize("document", PAGES)
def test_every_check_has_a_row_with_a_test_a_drill_or_a_reason(document: str) -> None:
    rows = dict(re.findall(r"^\| (\w+) \| (.+) \|$", (ROOT / "docs" / document).read_text(), re.MULTILINE))
    assert [name for name in PAGES[document] if len(rows.get(name, "")) < 40] == []


def test_every_drill_is_described() -> None:
    text = (ROOT / "docs" / "reliability.md").read_text()
    assert [name for name in DRILLS if f"| {name} |" not in text] == []
