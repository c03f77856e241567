"""Limits on failed log-ins by account, by address and by both, with exceptions for known devices.

Anyone who knows a user name can use up the attempts of its account. A browser that has logged in before, or that has
just opened an emailed reset link, therefore holds a cookie and has attempts of its own ("device cookies", OWASP).
"""

import secrets
from collections.abc import Callable
from typing import Any

from axes.attempts import get_cool_off_threshold
from axes.handlers.database import AxesDatabaseHandler
from axes.helpers import get_client_username
from axes.models import AccessAttempt
from django.conf import settings
from django.db.models import Sum
from django.http import HttpRequest, HttpResponse
from django.utils.crypto import salted_hmac

from annotation.http.cookies import read_cookie, set_cookie
from annotation.http.throttling import too_many_device_attempts

# The fields to group failed attempts by, and the failures allowed within AXES_COOLOFF_TIME.
LIMITS = (
    (("username", "ip_address"), settings.AXES_FAILURE_LIMIT),
    (("username",), 25),
    (("ip_address",), 100),  # a whole university may share one address
)
DEVICE_COOKIE_SECONDS = 365 * 24 * 3600

Credentials = dict[str, Any] | None


class LoginLimits(AxesDatabaseHandler):
    """Lock unknown devices out by LIMITS, and known ones by their own attempts."""

    def is_locked(self, request: HttpRequest, credentials: Credentials = None) -> bool:
        username = get_client_username(request, credentials) or ""
        if is_known_device(request, username):
            return False
        recent = AccessAttempt.objects.filter(attempt_time__gte=get_cool_off_threshold(request))
        values = {"username": username, "ip_address": request.axes_ip_address}  # type: ignore[attr-defined]
        for fields, limit in LIMITS:
            failures = recent.filter(**{name: values[name] for name in fields}).aggregate(n=Sum("failures_since_start"))
            if (failures["n"] or 0) >= limit:
                return True
        return False

    def get_failures(self, request: HttpRequest, credentials: Credentials = None) -> int:
        """Return the failure count that axes compares with its limit: the limit itself if locked, otherwise 0."""
        return settings.AXES_FAILURE_LIMIT if self.is_locked(request, credentials) else 0

    def user_logged_in(self, sender: Any, request: HttpRequest, user: Any, **kwargs: Any) -> None:
        super().user_logged_in(sender, request, user, **kwargs)
        remember_device(request, user.get_username())


def remember_device(request: HttpRequest, username: str) -> None:
    """Let DeviceCookieMiddleware mark this browser as known to the account."""
    request.device_of = username  # type: ignore[attr-defined]


def is_known_device(request: HttpRequest, username: str) -> bool:
    """Whether the browser has this account's device cookie and attempts left. Counts one attempt per request."""
    known: bool | None = getattr(request, "is_known_device", None)
    if known is None:
        device = read_cookie(request, _cookie_name(username), salt=_salt(username), max_age=DEVICE_COOKIE_SECONDS)
        known = bool(device) and not too_many_device_attempts(device)
        request.is_known_device = known  # type: ignore[attr-defined]
    return known


def _cookie_name(username: str) -> str:
    """The cookie's name, different for each account because several researchers may share a browser."""
    return f"concord_device_{salted_hmac('name of a device cookie', username).hexdigest()[:8]}"


def _salt(username: str) -> str:
    return f"device of {username}"


class DeviceCookieMiddleware:
    """Set the device cookie after a log-in or a password reset."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if username := getattr(request, "device_of", ""):
            device, salt = secrets.token_urlsafe(16), _salt(username)
            set_cookie(response, _cookie_name(username), device, salt=salt, max_age=DEVICE_COOKIE_SECONDS)
        return response
