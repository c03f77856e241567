"""Fixtures for the import tests."""

from pathlib import Path

import pytest

from annotation.models import Project, User
from annotation.services import create_project


@pytest.fixture
def empty(owner: User) -> Project:
    """A draft study without items."""
    return create_project(owner=owner, slug="empty", title="Empty")


@pytest.fixture
def ukpconvarg_folder(tmp_path: Path) -> Path:
    """A small folder like UKPConvArg: 6 items, 3 workers, 9 judgements, 3 of them ties."""
    items = ["item_id,fold,topic,stance,source_site,text"]
    items += [f'arg{n},{n % 2},Water,{"Yes" if n % 2 else "No"},site,"Text {n},\nsecond line"' for n in range(6)]
    rows = ["worker_id,item_a,item_b,choice,fold"]
    rows += [f"w{w},arg{a},arg{a + 2},{choice},0" for w in range(3) for a, choice in enumerate(("a", "b", "tie"))]
    (tmp_path / "items.csv").write_text("\n".join(items) + "\n", encoding="utf-8")
    (tmp_path / "judgements.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return tmp_path
