"""A psycopg connection that stops waiting for its server when the watchdog finds that it does not respond."""

from typing import Any, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.waiting import Ready

from config.databases.postgresql.watchdog import watchdog

T = TypeVar("T")


class GuardedConnection(psycopg.Connection[Any]):
    def wait(self, gen: PQGen[T], *args: Any, **kwargs: Any) -> T:
        return super().wait(self._guard(gen), *args, **kwargs)

    def _guard(self, gen: PQGen[T]) -> PQGen[T]:
        """Delegate to `gen`; check the watchdog on Ready.NONE, which psycopg sends ten times a second while waiting."""
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if ready == Ready.NONE:
                    self._check()
                wanted = gen.send(ready)
        except StopIteration as end:
            result: T = end.value
            return result
        except psycopg.OperationalError:  # perhaps the connection was lost
            watchdog.suspect()
            raise

    def _check(self) -> None:
        watchdog.suspect()
        if watchdog.is_open:
            self.pgconn.finish()  # the response may still arrive, so this connection cannot be reused
            raise psycopg.OperationalError("the database server does not respond")
