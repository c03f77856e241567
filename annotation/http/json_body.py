"""Parse the JSON body of a request strictly."""

import json
import math
from typing import Any, NoReturn

from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from annotation.exceptions import RequestError

MAX_DIGITS = 20


class UnreadableBody(RequestError):
    title = _("The answer could not be read.")
    detail = _("Nothing was saved; please choose again.")


class EmptyBody(UnreadableBody):
    title = _("The answer was empty.")


class BodyTooLarge(UnreadableBody):
    status = 413
    title = _("The answer was too large.")

    def message(self) -> str:
        limit = settings.DATA_UPLOAD_MAX_MEMORY_SIZE // 1000
        return gettext("The answer was too large: the limit is %(limit)s kB.") % {"limit": limit}


class WrongContentType(UnreadableBody):
    status = 415
    title = _("The answer was not sent as JSON.")


class NotAnObject(UnreadableBody):
    status = 422
    title = _("The answer was not a JSON object.")


def read_json(request: HttpRequest) -> dict[str, Any]:
    """The JSON object in the body. Refuses duplicate names, NaN and numbers that Python would read but JSON forbids."""
    try:
        body = request.body
    except RequestDataTooBig:
        raise BodyTooLarge from None
    if not body.strip():
        raise EmptyBody
    if request.content_type != "application/json":
        raise WrongContentType
    try:
        payload = json.loads(body, **STRICT)
    except (ValueError, RecursionError):
        raise UnreadableBody from None
    if not isinstance(payload, dict):
        raise NotAnObject
    return payload


def _unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({name for name, _value in pairs}) < len(pairs):
        raise ValueError("duplicate name")
    return dict(pairs)


def _short_int(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise ValueError("number too long")
    return int(digits)


def _finite_float(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError("number too large")
    return number


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


STRICT: dict[str, Any] = {
    "object_pairs_hook": _unique_names,
    "parse_constant": _no_constant,
    "parse_int": _short_int,
    "parse_float": _finite_float,
}
