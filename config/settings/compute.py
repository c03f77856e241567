"""Settings for compute-only processes (config/dask.py): no database, no secrets, no files."""

import secrets

from config.settings.base import *  # noqa: F403

SECRET_KEY = secrets.token_urlsafe()
ALLOWED_HOSTS: list[str] = []
