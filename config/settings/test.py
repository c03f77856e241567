"""The embedded profile in a folder of its own; on PostgreSQL where DATABASE_URL is given."""

import os
import tempfile
from pathlib import Path

import dj_database_url

from config.settings.base import *  # noqa: F403
from config.settings.base import STORAGES
from config.sqlite import sqlite_database

DATA_DIR = Path(tempfile.mkdtemp(prefix="concord-test-"))
SECRET_KEY = "a key for tests that guards nothing"  # noqa: S105
ALLOWED_HOSTS = ["testserver", "localhost", "127.0.0.1"]
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
CHANNEL_LAYERS = {"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}}
STATIC_ROOT = DATA_DIR / "staticfiles"
STATIC_ROOT.mkdir()
STORAGES = {**STORAGES, "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}}
WHITENOISE_USE_FINDERS = True

if os.environ.get("DATABASE_URL"):
    DATABASES = {"default": dj_database_url.config(conn_max_age=0)}
else:
    # A file, not memory: threads and child processes of a test must see the same rows.
    DATABASES = {"default": sqlite_database(DATA_DIR / "concord.sqlite3")}  # type: ignore[dict-item]
    DATABASES["default"]["TEST"] = {"NAME": str(DATA_DIR / "test.sqlite3")}
