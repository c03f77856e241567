"""Metrics that each web process counts for itself. `metrics.py` exposes them, summed over all processes."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

from prometheus_client import Counter, Gauge, Histogram

BUCKETS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 1, 2, 5, 10)
PREFIXES = {"/static/": "static", "/api/": "api"}
SUFFIXES = {"/judgements/": "judgement", "/retractions/": "retraction", "/task/": "task", "/join/": "join"}
HEALTH = {"/healthz", "/readyz", "/metrics"}

REQUEST_SECONDS = Histogram(
    "concord_request_seconds",
    "Seconds until the response was ready, including the wait for a thread.",
    ["kind", "status"],
    buckets=BUCKETS,
)
IN_PROGRESS = Gauge(
    "concord_requests_in_progress", "Requests waiting or being handled.", ["kind"], multiprocess_mode="livesum"
)
ERRORS = Counter("concord_log_errors", "Log lines of level error or above.", ["logger"])


def request_kind(path: str) -> str:
    """Return the kind of a path, so that the number of time series does not grow with the number of studies."""
    if path in HEALTH:
        return "health"
    prefix = next((kind for start, kind in PREFIXES.items() if path.startswith(start)), "")
    return prefix or next((kind for end, kind in SUFFIXES.items() if path.endswith(end)), "page")


class Measurement:
    """The status of the response, to be set inside `measure_request`; 0 if the client disconnected."""

    status = 0


@contextmanager
def measure_request(path: str) -> Iterator[Measurement]:
    """Track a request while it is in progress and record its duration."""
    kind, measurement, began = request_kind(path), Measurement(), perf_counter()
    in_progress = IN_PROGRESS.labels(kind)
    in_progress.inc()
    try:
        yield measurement
    finally:
        in_progress.dec()
        REQUEST_SECONDS.labels(kind, measurement.status).observe(perf_counter() - began)


class ErrorCounter(logging.Handler):
    """A log handler that counts records instead of writing them."""

    def emit(self, record: logging.LogRecord) -> None:
        ERRORS.labels(record.name).inc()
