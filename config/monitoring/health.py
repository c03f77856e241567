"""Health checks for load balancers. They name what is down and reveal nothing else."""

import tempfile
from collections.abc import Callable

from django.conf import settings
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from annotation.management.schema import unknown_migrations
from modelling.updater.leases import updater_is_alive


@never_cache
@require_safe
def healthz(request: HttpRequest) -> JsonResponse:
    """Return 200 while the process can respond."""
    return JsonResponse({"status": "ok"})


@never_cache
@require_safe
def readyz(request: HttpRequest) -> JsonResponse:
    """Return 200 if every check passes, otherwise 503 with the names of the failed checks."""
    down = [name for name, check in CHECKS.items() if not _passes(check)]
    return JsonResponse({"status": "down" if down else "ok", "down": down}, status=503 if down else 200)


def _passes(check: Callable[[], bool]) -> bool:
    try:
        return check()
    except (DatabaseError, OSError):
        return False


def _database() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        return cursor.fetchone() == (1,)


def _migrations() -> bool:
    executor = MigrationExecutor(connection)
    return not executor.migration_plan(executor.loader.graph.leaf_nodes()) and not unknown_migrations()


def _disk() -> bool:
    with tempfile.TemporaryFile(dir=settings.DATA_DIR) as file:
        return file.write(b"1") == 1


CHECKS: dict[str, Callable[[], bool]] = {
    "database": _database,
    "migrations": _migrations,
    "disk": _disk,
    "updater": updater_is_alive,
}
