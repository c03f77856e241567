"""PostgreSQL through a connection pool that fails fast if the server does not respond."""

from typing import Any

import dj_database_url
from django.core.exceptions import ImproperlyConfigured

from config.databases.postgresql.connection import GuardedConnection

# Server-side limits. They do not help if the server itself is frozen; for that see `watchdog.py`.
SESSION = "-c synchronous_commit=on -c statement_timeout=30000 -c lock_timeout=10000"
# `timeout` is how long a request waits for a connection. `reconnect_timeout` is short, so that a recovered server is
# tried at the next request instead of after a growing delay.
POOL = {"min_size": 2, "max_size": 10, "timeout": 0.8, "reconnect_timeout": 2.0, "connection_class": GuardedConnection}


def postgres_database() -> dict[str, Any]:
    """The Django database settings for DATABASE_URL."""
    database: dict[str, Any] = dict(dj_database_url.config(conn_max_age=0))
    if database["ENGINE"] != "django.db.backends.postgresql":
        raise ImproperlyConfigured(
            "DATABASE_URL must be the URL of a PostgreSQL database (postgres://...). Unset it to use SQLite."
        )
    options = {**database.get("OPTIONS", {}), "connect_timeout": 2, "pool": POOL, "options": SESSION}
    return database | {"ENGINE": "config.databases.postgresql", "OPTIONS": options}
