"""Log records as one JSON object per line, without personal data and without links that work like passwords."""

import json
import logging
import re
from collections.abc import Iterator
from contextvars import ContextVar
from datetime import UTC, datetime

from django.urls import URLPattern, URLResolver, get_resolver
from django.urls.resolvers import RoutePattern

current_request_id: ContextVar[str] = ContextVar("current_request_id", default="")

# URL parameters that may be logged. All others are masked, so that a new link with a token or a code is never logged.
LOGGED_PARAMETERS = {
    "slug",
    "pk",
    "id",
    "item_id",
    "object_id",
    "content_type_id",
    "judgement",
    "number",
    "what",
    "format",
}
PARAMETER = re.compile(r"<(?:\w+:)?(\w+)>")
SEGMENT = r"[^/\s?#\"'<>]+"
QUERY_STRING = re.compile(r"(/[^\s?\"']*)\?[^\s\"']+")

_private_paths: list[re.Pattern[str]] = []


def load_private_paths() -> None:
    """Find the URL patterns whose parameters are masked. Called before the first request."""
    routes = {
        route
        for route in _routes(get_resolver().url_patterns)
        if not LOGGED_PARAMETERS.issuperset(PARAMETER.findall(route))
    }
    # The longest first: a shorter pattern would leave the rest of a longer path as it is.
    _private_paths[:] = [_compile(route) for route in sorted(routes, key=len, reverse=True)]


def _routes(patterns: list[URLPattern | URLResolver], prefix: str = "/") -> Iterator[str]:
    for pattern in patterns:
        if isinstance(pattern, URLResolver):
            yield from _routes(pattern.url_patterns, prefix + str(pattern.pattern))
        elif isinstance(pattern.pattern, RoutePattern):
            yield prefix + str(pattern.pattern)


def _compile(route: str) -> re.Pattern[str]:
    """A regular expression for this route up to its last private parameter, with a group for each private one."""
    expression, end, position = "", "", 0
    for found in PARAMETER.finditer(route):
        expression += re.escape(route[position : found.start()])
        position = found.end()
        expression += SEGMENT if found[1] in LOGGED_PARAMETERS else f"({SEGMENT})"
        end = expression if found[1] not in LOGGED_PARAMETERS else end
    return re.compile(end)


def mask_private(text: str) -> str:
    """Replace query strings, and the tokens, codes and names in our own paths, with `*`."""
    for path in _private_paths:
        text = path.sub(_mask_groups, text)
    return QUERY_STRING.sub(r"\1?*", text)


def _mask_groups(found: re.Match[str]) -> str:
    text, start = found[0], found.start()
    for group in range(found.re.groups, 0, -1):
        text = text[: found.start(group) - start] + "*" + text[found.end(group) - start :]
    return text


class RequestIdFilter(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        record.request_id = current_request_id.get()
        return True


class JsonFormatter(logging.Formatter):
    """Log only the fields named here: never a request, its cookies or its body."""

    refused = "django.security."  # requests that Django refuses: the message says why, a traceback adds nothing
    fields = ("request_id", "method", "path", "status", "milliseconds", "project", "snapshot", "sequence")

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": mask_private(record.getMessage()),
        }
        line |= {name: value for name in self.fields if (value := getattr(record, name, "")) not in ("", None)}
        if record.exc_info and not record.name.startswith(self.refused):
            line["error"] = mask_private(self.formatException(record.exc_info))
        return json.dumps(line, default=str)
