"""Embedded profile: SQLite, in-memory channel layer, updater as a child process of `serve`. Needs no variables."""

import os
from urllib.parse import urlsplit

from config.databases.sqlite import sqlite_database
from config.secret_key import checkpoint_key, make_private, secret_key
from config.settings.base import *  # noqa: F403
from config.settings.base import DATA_DIR, PUBLIC_ADDRESS

make_private(DATA_DIR)
SECRET_KEY = secret_key(DATA_DIR)
CHECKPOINT_KEY = checkpoint_key(DATA_DIR)
DATABASES = {"default": sqlite_database(DATA_DIR / "concord.sqlite3")}
ALLOWED_HOSTS = ["localhost", "127.0.0.1", "[::1]", *filter(None, os.environ.get("ALLOWED_HOSTS", "").split(","))]
CSRF_TRUSTED_ORIGINS = [*filter(None, os.environ.get("TRUSTED_ORIGINS", "").split(","))]
PUBLIC_ADDRESS = PUBLIC_ADDRESS or next(iter(CSRF_TRUSTED_ORIGINS), "").rstrip("/")
if PUBLIC_ADDRESS.startswith("https://"):
    from config.settings.tls import *  # noqa: F403

    _public = urlsplit(PUBLIC_ADDRESS)
    ALLOWED_HOSTS.append(_public.hostname or "")
    CSRF_TRUSTED_ORIGINS.append(f"https://{_public.netloc}")
