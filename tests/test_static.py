"""Static files: collected when something changed, and plotly's script out of its wheel."""

from pathlib import Path
from typing import Any

import pytest
from django.contrib.staticfiles import finders

from config import static


@pytest.fixture
def collected(monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Path) -> list[str]:
    """The times `collectstatic` was called, on a folder of the test's own."""
    settings.STATIC_ROOT, calls = tmp_path, []
    monkeypatch.setattr(static, "call_command", lambda name, **kwargs: calls.append(name))
    return calls


def test_a_second_start_collects_nothing(collected: list[str]) -> None:
    static.collect()
    static.collect()
    assert collected == ["collectstatic"]


def test_a_changed_file_is_collected_anew(collected: list[str], settings: Any, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    settings.STATICFILES_DIRS = [own]
    finders.get_finder.cache_clear()
    static.collect()
    (own / "new.js").write_text("1;")
    static.collect()
    finders.get_finder.cache_clear()
    assert collected == ["collectstatic", "collectstatic"]


def test_plotly_hands_out_its_script_and_nothing_else() -> None:
    finder = static.PlotlyScript()
    assert [name for name, _ in finder.list(None)] == ["plotly.min.js"]
    assert Path(finder.find("plotly.min.js")).stat().st_size > 1_000_000
    assert finder.find("widgetbundle.js") == []
