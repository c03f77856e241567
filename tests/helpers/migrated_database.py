"""A migrated SQLite database that is kept between test runs: applying all migrations takes seconds."""

import hashlib
import os
import shutil
import sqlite3
from contextlib import closing
from itertools import product
from pathlib import Path

import django
from django.conf import settings

FOLDER = settings.BASE_DIR / ".pytest_cache" / "databases"
# Everything that the tables, triggers and rows of an empty database depend on.
APPS, PARTS = ("annotation", "modelling"), ("migrations", "models", "storage")


def restore() -> bool:
    """Copy the kept database to the place of the test database; False if none fits the present code."""
    kept = _path()
    if not kept.exists():
        return False
    shutil.copyfile(kept, settings.DATABASES["default"]["TEST"]["NAME"])
    return True


def keep() -> None:
    """Keep a copy of the test database, and delete those of earlier code."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    draft = FOLDER / f"{os.getpid()}.tmp"
    with (
        closing(sqlite3.connect(settings.DATABASES["default"]["TEST"]["NAME"])) as live,
        closing(sqlite3.connect(draft)) as copy,
    ):
        live.backup(copy)
    draft.replace(_path())
    for old in FOLDER.glob("*.sqlite3"):
        if old != _path():
            old.unlink(missing_ok=True)


def _path() -> Path:
    digest = hashlib.sha256(django.__version__.encode())
    for app, part in product(APPS, PARTS):
        for file in sorted((settings.BASE_DIR / app / part).rglob("*.py")):
            digest.update(file.read_bytes())
    return FOLDER / f"{digest.hexdigest()[:20]}.sqlite3"
