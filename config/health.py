"""Is it alive, and can it work? Names the part that is down and leaks nothing else."""

import tempfile
from collections.abc import Callable

from django.conf import settings
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from modelling.claiming import updater_is_alive


@never_cache
@require_safe
def healthz(request: HttpRequest) -> JsonResponse:
    """The process answers. Nothing else is asked."""
    return JsonResponse({"status": "ok"})


@never_cache
@require_safe
def readyz(request: HttpRequest) -> JsonResponse:
    """200 when every part works, 503 naming the parts that do not."""
    down = [name for name, works in PARTS.items() if not _works(works)]
    return JsonResponse({"status": "down" if down else "ok", "down": down}, status=503 if down else 200)


def _works(part: Callable[[], bool]) -> bool:
    try:
        return part()
    except (DatabaseError, OSError):
        return False


def _database() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        return cursor.fetchone() == (1,)


def _migrations() -> bool:
    executor = MigrationExecutor(connection)
    return not executor.migration_plan(executor.loader.graph.leaf_nodes())


def _disk() -> bool:
    with tempfile.TemporaryFile(dir=settings.DATA_DIR) as file:
        return file.write(b"1") == 1


PARTS: dict[str, Callable[[], bool]] = {
    "database": _database,
    "migrations": _migrations,
    "disk": _disk,
    "updater": updater_is_alive,
}
