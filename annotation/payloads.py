"""Reads what a browser sent, and refuses in words what cannot be read."""

import json
import math
from typing import Any, NoReturn

from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from annotation.refusals import Refused

LONGEST_NUMBER = 20


class Unreadable(Refused):
    title = _("The answer could not be read.")
    detail = _("Nothing was saved; please choose again.")


class Empty(Unreadable):
    title = _("The answer was empty.")


class TooBig(Unreadable):
    status = 413
    title = _("The answer was too large.")

    def said(self) -> str:
        most = settings.DATA_UPLOAD_MAX_MEMORY_SIZE // 1000
        return gettext("The answer was too large: at most %(most)s kB are taken.") % {"most": most}


class NotJson(Unreadable):
    status = 415
    title = _("The answer did not come as JSON.")


class NotAnObject(Unreadable):
    status = 422
    title = _("The answer had the wrong shape.")


def read_json(request: HttpRequest) -> dict[str, Any]:
    """The one JSON object in the body. Refuses repeated names, NaN, and anything Python would read more generously."""
    try:
        body = request.body
    except RequestDataTooBig:
        raise TooBig from None
    if not body.strip():
        raise Empty
    if request.content_type != "application/json":
        raise NotJson
    try:
        payload = json.loads(body, **STRICTLY)
    except (ValueError, RecursionError):
        raise Unreadable from None
    if not isinstance(payload, dict):
        raise NotAnObject
    return payload


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({name for name, _value in pairs}) < len(pairs):
        raise ValueError("a name stands twice")
    return dict(pairs)


def _whole(digits: str) -> int:
    if len(digits) > LONGEST_NUMBER:
        raise ValueError("a number too long to mean anything")
    return int(digits)


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError("a number too large to keep")
    return number


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


STRICTLY: dict[str, Any] = {
    "object_pairs_hook": _without_repeats,
    "parse_constant": _no_constant,
    "parse_int": _whole,
    "parse_float": _finite,
}
