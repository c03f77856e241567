"""Test profile: the embedded profile in a temporary folder, or on PostgreSQL if DATABASE_URL is set."""

import os
import shutil
import tempfile
from pathlib import Path

import dj_database_url

from config.databases.sqlite import sqlite_database
from config.settings.base import *  # noqa: F403
from config.settings.base import STORAGES

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before numpy is loaded: BLAS threads slow small matrices down
_MEMORY = Path("/dev/shm")  # noqa: S108
_ENOUGH = 2**30

DATA_DIR = Path(
    tempfile.mkdtemp(
        prefix="concord-test-",
        dir=_MEMORY if _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > _ENOUGH else None,
    )
)
SECRET_KEY = "insecure key for tests"  # noqa: S105
CHECKPOINT_KEY = "aW5zZWN1cmUgY2hlY2twb2ludCBrZXkgZm9yIHRlc3Q="
ALLOWED_HOSTS = ["testserver", "localhost", "127.0.0.1"]
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
STATIC_ROOT = DATA_DIR / "staticfiles"
STATIC_ROOT.mkdir()
STORAGES = {**STORAGES, "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}}
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = True  # look up files on request; listing all of them for every Client is slow

if os.environ.get("DATABASE_URL"):
    DATABASES = {"default": dj_database_url.config(conn_max_age=0)}
else:
    # A file, because threads and child processes of a test must see the same rows.
    DATABASES = {"default": sqlite_database(DATA_DIR / "concord.sqlite3")}  # type: ignore[dict-item]
    DATABASES["default"]["TEST"] = {"NAME": str(DATA_DIR / "test.sqlite3")}
REQUEST_LOCK_SECONDS = 60.0  # the machine may be busy, and tests use more threads than a server
