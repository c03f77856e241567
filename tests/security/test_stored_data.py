"""Stored data: no pickle is loaded, and a new secret key keeps people logged in while the old one is a fallback."""

import io
from typing import Any

import numpy as np
import pytest
from django.test import Client

from annotation.models import Project
from modelling.training.storage import array_store

pytestmark = pytest.mark.django_db

CHECKSUM = "0" * 64


class Exploit:
    """An object that would run code when it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (pytest.fail, ("a pickle was loaded",))


def test_arrays_that_contain_a_pickle_are_refused(project: Project) -> None:
    packed = io.BytesIO()
    np.savez(packed, state=np.array([Exploit()], dtype=object))
    array_store._store(project, CHECKSUM, packed.getvalue())
    with pytest.raises(array_store.DamagedArrays):
        array_store.load(project, CHECKSUM)


def test_a_new_secret_key_logs_no_one_out(worker_client: Client, olga: Client, settings: Any) -> None:
    settings.SECRET_KEY_FALLBACKS, settings.SECRET_KEY = [settings.SECRET_KEY], "another key " * 5
    assert worker_client.get("/s/pets/task/").status_code == 200
    assert olga.get("/projects/").status_code == 200
    settings.SECRET_KEY_FALLBACKS = []
    assert worker_client.get("/s/pets/task/").status_code == 401
