"""One machine, one folder, nothing to set up: SQLite, channels in memory, the updater a child of `serve`."""

import os

from config.secrets import secret_key
from config.settings.base import *  # noqa: F403
from config.settings.base import DATA_DIR, PUBLIC_ADDRESS
from config.sqlite import sqlite_database

DATA_DIR.mkdir(mode=0o700, parents=True, exist_ok=True)
SECRET_KEY = secret_key(DATA_DIR)
DATABASES = {"default": sqlite_database(DATA_DIR / "concord.sqlite3")}
CHANNEL_LAYERS = {"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}}
ALLOWED_HOSTS = ["localhost", "127.0.0.1", "[::1]", *filter(None, os.environ.get("ALLOWED_HOSTS", "").split(","))]
CSRF_TRUSTED_ORIGINS = [*filter(None, os.environ.get("TRUSTED_ORIGINS", "").split(","))]
PUBLIC_ADDRESS = PUBLIC_ADDRESS or next(iter(CSRF_TRUSTED_ORIGINS), "").rstrip("/")
