"""`/metrics` in Prometheus format, for clients with the METRICS_TOKEN. Without the setting the page does not exist.

Several web processes on one machine write their counts to files in a shared folder (`serve` sets
PROMETHEUS_MULTIPROC_DIR), and any of them can report the totals.
"""

import os
from pathlib import Path

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.crypto import constant_time_compare
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from modelling.web.metrics import DatabaseCollector


@never_cache
@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    if not settings.METRICS_TOKEN:
        raise Http404
    if not constant_time_compare(request.headers.get("authorization", ""), f"Bearer {settings.METRICS_TOKEN}"):
        return HttpResponse("A token is needed.\n", status=401, headers={"WWW-Authenticate": "Bearer"})
    database = CollectorRegistry()
    database.register(DatabaseCollector())
    content = generate_latest(_processes()) + generate_latest(database)
    return HttpResponse(content, content_type=CONTENT_TYPE_LATEST)


def _processes() -> CollectorRegistry:
    """The counts of this process or, if they share a folder, of all web processes on this machine."""
    folder = os.environ.get("PROMETHEUS_MULTIPROC_DIR")
    if folder is None:
        return REGISTRY
    _forget_dead_processes(Path(folder))
    registry = CollectorRegistry()
    MultiProcessCollector(registry, path=folder)
    return registry


def _forget_dead_processes(folder: Path) -> None:
    """Delete the gauges of processes that were killed; their counters stay, because they are part of the sum."""
    for path in folder.glob("gauge_live*_*.db"):
        pid = path.stem.rsplit("_", 1)[1]
        if not Path(f"/proc/{pid}").exists():
            path.unlink(missing_ok=True)
