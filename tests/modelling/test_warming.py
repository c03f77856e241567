"""What a web process reads before anybody asks."""

import gc
import subprocess
import sys

import pytest
from django.conf import settings

from modelling import warming, word_vectors

DOOR = """
import sys, threading
import config.asgi
for thread in threading.enumerate():
    if thread.name == "warm-up":
        thread.join()
from modelling.word_vectors import _table, _tokeniser
print(_table.cache_info().currsize, _tokeniser.cache_info().currsize, "sklearn" in sys.modules)
"""


@pytest.mark.slow
def test_a_process_that_serves_pages_has_the_word_vectors_and_no_more_than_reading_texts_needs(tmp_path, monkeypatch):
    monkeypatch.setenv("CONCORD_DATA", str(tmp_path))
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "config.settings.embedded")
    ran = subprocess.run(
        [sys.executable, "-c", DOOR], cwd=settings.BASE_DIR, capture_output=True, text=True, timeout=120, check=True
    )
    assert ran.stdout.split() == ["1", "1", "False"]


def test_what_cannot_be_read_is_told_and_stops_nothing(monkeypatch, caplog):
    def missing(texts):
        raise RuntimeError("The package wordllama is not installed, so there are no word vectors.")

    monkeypatch.setattr(warming, "word_vectors", missing)
    try:
        warming.warm_up()
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()
    assert "wordllama is not installed" in caplog.text
    assert word_vectors.word_vectors(["a"])[0].any()
