"""Warming up a web process, and loading a new version once for all pages."""

import gc
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Semaphore

import pytest
from django.conf import settings

from annotation.models import Project
from modelling.features import word_vectors
from modelling.models import ModelSnapshot
from modelling.training import snapshots
from modelling.updater import startup

SCRIPT = """
import sys, threading
import config.asgi
for thread in threading.enumerate():
    if thread.name == "warm-up":
        thread.join()
from modelling.features.word_vectors import _table, _tokeniser
print(_table.cache_info().currsize, _tokeniser.cache_info().currsize, "sklearn" in sys.modules)
"""


@pytest.mark.slow
def test_warming_up_loads_the_word_vectors_and_no_heavy_libraries(tmp_path, monkeypatch):
    monkeypatch.setenv("CONCORD_DATA", str(tmp_path))
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "config.settings.embedded")
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=settings.BASE_DIR, capture_output=True, text=True, timeout=600, check=True
    )
    assert ran.stdout.split() == ["1", "1", "False"]


def test_missing_word_vectors_are_logged_and_do_not_stop_the_process(monkeypatch, caplog):
    def missing(texts):
        raise RuntimeError("The package wordllama is not installed, so there are no word vectors.")

    monkeypatch.setattr(startup, "word_vectors", missing)
    try:
        startup.warm_up()
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()
    assert "wordllama is not installed" in caplog.text
    assert word_vectors.word_vectors(["a"])[0].any()


def test_simultaneous_pages_load_a_new_version_once(monkeypatch):
    requested, reads = Semaphore(0), []

    def read(project, checksum, number):
        for _ in range(3):
            requested.acquire()
        reads.append(checksum)
        return checksum

    def load(snapshot):
        requested.release()
        return snapshots.load_fitted_model(snapshot)

    monkeypatch.setattr(snapshots, "read_fitted_model", read)
    try:
        with ThreadPoolExecutor(3) as pool:
            loaded = list(pool.map(load, [ModelSnapshot(project=Project(pk=7), checksum="new")] * 3))
    finally:
        snapshots._cached_fitted_model.cache_clear()
    assert (loaded, reads) == (["new"] * 3, ["new"])
