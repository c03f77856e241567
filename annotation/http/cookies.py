"""Signed worker and device cookies, all with the same attributes."""

from django.conf import settings
from django.core.signing import BadSignature
from django.http import HttpRequest, HttpResponse


def set_cookie(response: HttpResponse, name: str, value: str, *, salt: str, max_age: int) -> None:
    """Set a signed cookie that scripts cannot read; over TLS no other host or path can set it (`__Host-`)."""
    response.set_signed_cookie(
        _full_name(name),
        value,
        salt=salt,
        max_age=max_age,
        httponly=True,
        samesite="Lax",
        secure=settings.SESSION_COOKIE_SECURE,
    )


def read_cookie(request: HttpRequest, name: str, *, salt: str, max_age: int) -> str:
    """The value of a cookie, or an empty string if it is missing, too old or not signed by us."""
    for full_name in (_full_name(name), name):  # no prefix: set by release 0.1; remove after 0.2
        try:
            return str(request.get_signed_cookie(full_name, salt=salt, max_age=max_age))
        except (KeyError, BadSignature):
            continue
    return ""


def delete_cookie(response: HttpResponse, name: str) -> None:
    for full_name in {_full_name(name), name}:
        response.delete_cookie(full_name, samesite="Lax")


def _full_name(name: str) -> str:
    return f"__Host-{name}" if settings.SESSION_COOKIE_SECURE else name
