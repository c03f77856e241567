"""What a web process reads before anybody asks, and what it reads once for all who ask."""

import gc
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Semaphore

import pytest
from django.conf import settings

from annotation.models import Project
from modelling import snapshots, warming, word_vectors
from modelling.models import ModelSnapshot

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


def test_pages_that_come_at_once_for_a_new_version_read_it_once(monkeypatch):
    came, reads = Semaphore(0), []

    def read(project, checksum):
        for _ in range(3):
            came.acquire()
        reads.append(checksum)
        return checksum

    def ask(snapshot):
        came.release()
        return snapshots.load_fitted(snapshot)

    monkeypatch.setattr(snapshots, "read_fitted", read)
    try:
        with ThreadPoolExecutor(3) as pool:
            told = list(pool.map(ask, [ModelSnapshot(project=Project(pk=7), checksum="new")] * 3))
    finally:
        snapshots._shared.cache_clear()
    assert (told, reads) == (["new"] * 3, ["new"])
