"""Around every request: an id to find it in the logs, one log line, and a plain answer when the database is away."""

import errno
import logging
import re
import time
import uuid
from collections.abc import Callable

from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed

from annotation.errors import unavailable, wrong_method
from config.logs import current_request_id

log = logging.getLogger("concord.request")
# What follows names somebody or something, or is the key in a letter: the log keeps only the shape.
PRIVATE_SEGMENT = re.compile(r"/(?:(workers|items|invitations)/[^/]+|(reset)/[^/]+/[^/]+)")

View = Callable[[HttpRequest], HttpResponse]


class RequestIdMiddleware:
    """Gives each request an id, returns it in a header and writes one log line without query string."""

    def __init__(self, get_response: View) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        request.id = uuid.uuid4().hex[:12]  # type: ignore[attr-defined]
        token = current_request_id.set(request.id)  # type: ignore[attr-defined]
        began = time.perf_counter()
        try:
            response = self.get_response(request)
            milliseconds = round(1000 * (time.perf_counter() - began), 1)
            response["X-Request-ID"] = request.id  # type: ignore[attr-defined]
            path = PRIVATE_SEGMENT.sub(lambda found: f"/{found[1] or found[2]}/*", request.path)
            facts = {"method": request.method, "path": path, "status": response.status_code}
            log.info("request", extra={**facts, "milliseconds": milliseconds})
        finally:
            current_request_id.reset(token)
        return response


class PlainAnswersMiddleware:
    """Words where Django has none: 503, not 500, when the database is away or full; a page for a wrong method."""

    def __init__(self, get_response: View) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        return wrong_method(request, response["Allow"]) if isinstance(response, HttpResponseNotAllowed) else response

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        full = isinstance(error, OSError) and error.errno == errno.ENOSPC
        if full or isinstance(error, (OperationalError, InterfaceError)):
            log.error("the database or the disk did not do its part", exc_info=error)
            return unavailable(request)
        return None


def request_id(request: HttpRequest) -> dict[str, str]:
    """For templates: error pages quote the id."""
    return {"request_id": getattr(request, "id", "")}
