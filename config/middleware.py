"""Middleware: a request id with one log line per request, and error pages that Django lacks."""

import errno
import logging
import time
import uuid
from collections.abc import Callable

from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed

from annotation.http.error_pages import method_not_allowed, service_unavailable
from config.monitoring.json_logging import current_request_id, load_private_paths, mask_private

log = logging.getLogger("concord.request")

View = Callable[[HttpRequest], HttpResponse]


class RequestIdMiddleware:
    """Give each request an id, return it in a header and write one log line without the query string."""

    def __init__(self, get_response: View) -> None:
        self.get_response = get_response
        load_private_paths()

    def __call__(self, request: HttpRequest) -> HttpResponse:
        request.id = uuid.uuid4().hex[:12]  # type: ignore[attr-defined]
        token = current_request_id.set(request.id)  # type: ignore[attr-defined]
        began = time.perf_counter()
        try:
            response = self.get_response(request)
            milliseconds = round(1000 * (time.perf_counter() - began), 1)
            response["X-Request-ID"] = request.id  # type: ignore[attr-defined]
            fields = {"method": request.method, "path": mask_private(request.path), "status": response.status_code}
            log.info("request", extra={**fields, "milliseconds": milliseconds})
        finally:
            current_request_id.reset(token)
        return response


class PrivateCacheMiddleware:
    """Keep pages out of caches and off shared computers' disks, unless their view sets Cache-Control."""

    def __init__(self, get_response: View) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        response.headers.setdefault("Cache-Control", "private, no-store")
        return response


class ErrorPagesMiddleware:
    """Return 503 instead of 500 when the database is down or the disk full, and a page for 405."""

    def __init__(self, get_response: View) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if isinstance(response, HttpResponseNotAllowed):
            return method_not_allowed(request, response["Allow"])
        return response

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        disk_full = isinstance(error, OSError) and error.errno == errno.ENOSPC
        if disk_full or isinstance(error, (OperationalError, InterfaceError)):
            log.error("database unavailable or disk full", exc_info=error)
            return service_unavailable(request)
        return None


def request_id(request: HttpRequest) -> dict[str, str]:
    """Context processor: error pages show the request id."""
    return {"request_id": getattr(request, "id", "")}
