"""Every refusal of the API as problem+json: what happened, what is safe, what to do, and which field was meant."""

from typing import Any

from django.core.exceptions import PermissionDenied, RequestDataTooBig
from django.forms import BaseForm
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from ninja import NinjaAPI
from ninja.errors import AuthenticationError, HttpError, ValidationError

from annotation.errors import problem
from annotation.forms.judging import WrongField
from annotation.importing.problems import ImportRefused
from annotation.payloads import Empty, NotAnObject, NotJson, TooBig, Unreadable
from annotation.refusals import Refused
from modelling.arrays import Damaged

# What is wrong in the address is not found, in a question a bad request, in a body not processable.
STATUS_OF_PLACE = {"path": 404, "query": 400, "header": 400, "body": 422}


# How the words for a worker's answer read for a body, which a person never sees.
BODIES: dict[type[Refused], Any] = {
    Unreadable: gettext_lazy("The body is not strict JSON: a name stands twice, or something else cannot be read."),
    Empty: gettext_lazy("The body is empty."),
    TooBig: gettext_lazy("The body is too large."),
    NotJson: gettext_lazy("The body did not come as JSON."),
    NotAnObject: gettext_lazy("The body is not a JSON object."),
}
# In words what pydantic would say in expressions.
LONGEST_NAME = 60  # of a field that was made up by the sender
PLAIN = {"string_pattern_mismatch": gettext_lazy("It is blank, or holds characters that are not allowed here.")}


class Unasked(Refused):
    """A question that this address does not know, or cannot answer."""

    status = 400
    code = "bad_question"
    title = gettext_lazy("This question is not known here.")
    detail = gettext_lazy("Nothing was changed. The documentation lists what may be asked.")

    def __init__(self, field: str, title: Any = "") -> None:
        super().__init__(field)
        self.field = field
        self.title = title or self.title


class Conflict(Refused):
    """What was sent is well said, but the study is not in a state to take it."""

    status = 409
    code = "conflict"

    def __init__(self, title: str, field: str | None = None) -> None:
        super().__init__(title)
        self.title, self.field = title, field  # type: ignore[assignment]

    detail = gettext_lazy("Nothing was changed.")


class NotThis(Conflict):
    """What was sent is of the right shape and still cannot be taken."""

    status = 422
    code = "invalid"


def refuse_form(form: BaseForm, kind: type[Conflict] = NotThis) -> None:
    """Raises the first thing that a form has against what was sent, under the name of its field."""
    for name, messages in form.errors.items():
        raise kind(str(messages[0]), None if name == "__all__" else name)


def answer(request: HttpRequest, status: int, title: Any, detail: Any, **more: Any) -> HttpResponse:
    """Every refusal has a field and a code, if only an empty one."""
    return problem(request, status, str(title), str(detail), **{"code": None, **more})


def refused(request: HttpRequest, error: Refused) -> HttpResponse:
    more = {"code": error.code, "field": getattr(error, "field", None), **error.facts()}
    response = answer(request, error.status, error.said(), error.detail, **more)
    if error.status == 429:
        response["Retry-After"] = str(error.retry_seconds)
    return response


def unreadable(request: HttpRequest, error: Unreadable) -> HttpResponse:
    words = _("Nothing was changed. Send one JSON object as application/json, of at most a megabyte.")
    return answer(request, error.status, BODIES[type(error)], words, code="unreadable")


def not_imported(request: HttpRequest, error: ImportRefused) -> HttpResponse:
    """What is wrong with the items, by their number in the list."""
    words = _("Nothing was stored; what was there before is safe. Correct the items and send them again.")
    problems = [str(problem) for problem in error.problems]
    title = problems[0] if problems else error.said()
    return answer(request, error.status, title, words, field="items", code="invalid", problems=problems)


def not_authenticated(request: HttpRequest, error: Exception) -> HttpResponse:
    words = _("Send a token that is neither revoked nor expired, as “Authorization: Bearer concord_…”.")
    response = answer(request, 401, _("This needs an API token."), words, code="no_token")
    response["WWW-Authenticate"] = "Bearer"
    return response


def not_allowed(request: HttpRequest, error: PermissionDenied) -> HttpResponse:
    words = _("Nothing was changed. Ask an owner of the project for the role you need, or make another token.")
    return answer(request, 403, str(error) or _("Your account may not do this."), words, code="not_allowed")


def not_found(request: HttpRequest, error: Http404) -> HttpResponse:
    words = _("Nothing was changed. Check the address, and the project it belongs to.")
    return answer(request, 404, str(error) or _("There is nothing at this address."), words, code="not_found")


def not_parsed(request: HttpRequest, error: HttpError) -> HttpResponse:
    """ninja wraps whatever the parser raises: the parser's own refusal says why."""
    if not isinstance(error.__cause__, Unreadable):
        raise error
    return unreadable(request, error.__cause__)


def too_big(request: HttpRequest, error: RequestDataTooBig) -> HttpResponse:
    return unreadable(request, TooBig())


def wrong_field(request: HttpRequest, error: WrongField) -> HttpResponse:
    """400 where the id that makes a retry safe is missing, as for a browser."""
    status = 400 if error.missing and error.field == "uuid" else 422
    words = f"{error.words} " + _("Nothing was saved.")
    return answer(request, status, _("What was sent is not complete."), words, field=error.field, code="invalid")


def not_valid(request: HttpRequest, error: ValidationError) -> HttpResponse:
    """The first thing that is wrong, by the place it stands in; what was sent is not repeated."""
    first = error.errors[0]
    place, *path = first["loc"]
    if place == "body" and first["type"] == "missing" and len(path) == 1:
        return unreadable(request, Empty())
    # A body, and a question whose place ninja could not shorten, begin with the name of the view's own argument.
    field = ".".join(str(part)[:LONGEST_NAME] for part in (path[1:] if place == "body" or len(path) > 1 else path))
    status = STATUS_OF_PLACE[place]
    if first["type"] == "missing" and field == "uuid":
        status = 400
    words = PLAIN.get(first["type"], first["msg"].removeprefix("Value error, "))
    return answer(request, status, _("“%(field)s” cannot be taken.") % {"field": field}, words, field=field)


def damaged(request: HttpRequest, error: Damaged) -> HttpResponse:
    words = _("Its ranking is safe. Ask for the newest version, or for a fit from scratch.")
    return answer(request, 409, _("What lies behind this version cannot be read any more."), words, code="no_arrays")


HANDLERS: dict[type[Exception], Any] = {
    Refused: refused,
    Unreadable: unreadable,
    ImportRefused: not_imported,
    AuthenticationError: not_authenticated,
    PermissionDenied: not_allowed,
    Http404: not_found,
    HttpError: not_parsed,
    RequestDataTooBig: too_big,
    WrongField: wrong_field,
    ValidationError: not_valid,
    Damaged: damaged,
}


def say_it_in_problems(api: NinjaAPI) -> None:
    for kind, handler in HANDLERS.items():
        api.add_exception_handler(kind, handler)
