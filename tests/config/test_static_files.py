"""Static files: collected when something changed; scripts and styles from installed packages."""

from pathlib import Path
from typing import Any

import pytest
from django.contrib.staticfiles import finders

from config import static_files

PACKAGE_FILES = {"plotly.min.js", "ninja/swagger-ui-bundle.js", "ninja/swagger-ui.css"}


@pytest.fixture
def collected(monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Path) -> list[str]:
    """The calls of `collectstatic`."""
    settings.STATIC_ROOT, calls = tmp_path, []
    monkeypatch.setattr(static_files, "call_command", lambda name, **kwargs: calls.append(name))
    return calls


def test_a_second_start_collects_nothing(collected: list[str]) -> None:
    static_files.collect()
    static_files.collect()
    assert collected == ["collectstatic"]


def test_a_changed_file_is_collected_again(collected: list[str], settings: Any, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    settings.STATICFILES_DIRS = [own]
    finders.get_finder.cache_clear()
    static_files.collect()
    (own / "new.js").write_text("1;")
    static_files.collect()
    finders.get_finder.cache_clear()
    assert collected == ["collectstatic", "collectstatic"]


def test_packages_provide_only_the_listed_files() -> None:
    finder = static_files.PackageFiles()
    assert {name for name, _ in finder.list(None) if not name.endswith(".map")} == PACKAGE_FILES
    for name in PACKAGE_FILES:
        assert Path(finder.find(name)).stat().st_size > 100_000
    assert finder.find("ninja/redoc.standalone.js") == []
