"""Django's PostgreSQL backend with a circuit breaker."""

import os
from typing import Any

from django.db.backends.postgresql import base

from config.databases.postgresql.watchdog import watchdog

DEFAULT_HOST, DEFAULT_PORT = "/var/run/postgresql", 5432


class DatabaseWrapper(base.DatabaseWrapper):
    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        """Take a connection from the pool, unless the server is known not to respond."""
        host = conn_params.get("host") or os.environ.get("PGHOST") or DEFAULT_HOST
        port = conn_params.get("port") or os.environ.get("PGPORT") or DEFAULT_PORT
        watchdog.watch(str(host), int(port), self._check_pool)
        if watchdog.is_open:
            raise self.Database.OperationalError("the database server does not respond")
        if self.pool and not self.pool.get_stats().get("pool_available"):
            watchdog.suspect()  # probe the server while this request waits for a connection
        return super().get_new_connection(conn_params)

    def _check_pool(self) -> None:
        """Replace connections that broke while the server was down."""
        if self.pool:
            self.pool.check()
