"""The files that the documentation names exist."""

import re
from pathlib import Path

import pytest
from django.conf import settings

PAGES = sorted([*settings.BASE_DIR.glob("*.md"), *settings.BASE_DIR.glob("docs/**/*.md")])
TOP = "annotation|benchmarks|config|deploy|docs|modelling|static|templates|tests"
NAMED = re.compile(rf"`((?:{TOP})/[\w./-]*)`")
LINKED = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_file_that_a_page_names_or_links_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    files = [settings.BASE_DIR / name for name in NAMED.findall(text)]
    files += [page.parent / link for link in LINKED.findall(text)]
    assert [str(file) for file in files if not file.exists()] == []


def test_decisions_are_numbered_without_gaps_and_all_listed() -> None:
    folder = settings.BASE_DIR / "docs/decisions"
    names = sorted(path.name for path in folder.glob("0*.md"))
    assert [int(name[:4]) for name in names] == list(range(1, len(names) + 1))
    assert re.findall(r"\((0[^)]*\.md)\)", (folder / "README.md").read_text(encoding="utf-8")) == names
