"""Absolute links to this installation."""

from django.conf import settings
from django.http import HttpRequest


def build_absolute_url(request: HttpRequest, path: str) -> str:
    """The absolute URL of this path, on PUBLIC_ADDRESS if set, otherwise on the request's (allowed) host."""
    return f"{settings.PUBLIC_ADDRESS}{path}" if settings.PUBLIC_ADDRESS else request.build_absolute_uri(path)
