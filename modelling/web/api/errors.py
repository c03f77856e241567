"""API errors and their problem+json responses: what happened, what to do, and which field it is about."""

from typing import Any

from django.core.exceptions import PermissionDenied, RequestDataTooBig
from django.forms import BaseForm
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from ninja import NinjaAPI
from ninja.errors import AuthenticationError, HttpError, ValidationError

from annotation.exceptions import RequestError
from annotation.forms.judging import InvalidField
from annotation.http.error_pages import problem_response
from annotation.http.json_body import BodyTooLarge, EmptyBody, NotAnObject, UnreadableBody, WrongContentType
from annotation.importing.problems import ImportFileError
from modelling.training.storage.array_store import DamagedArrays

# HTTP status of a validation error, by the part of the request.
STATUS_BY_PART = {"path": 404, "query": 400, "header": 400, "body": 422}
# Messages for API clients; those of the errors themselves are addressed to workers.
BODY_MESSAGES: dict[type[RequestError], Any] = {
    UnreadableBody: gettext_lazy("The body is not valid JSON: it has a duplicate name or cannot be parsed."),
    EmptyBody: gettext_lazy("The body is empty."),
    BodyTooLarge: gettext_lazy("The body is too large."),
    WrongContentType: gettext_lazy("The content type is not application/json."),
    NotAnObject: gettext_lazy("The body is not a JSON object."),
}
MAX_FIELD_NAME = 60  # unknown field names are repeated in the response
# Replaces pydantic's message, which quotes a regular expression.
VALIDATION_MESSAGES = {"string_pattern_mismatch": gettext_lazy("It is blank or contains invalid characters.")}


class InvalidParameter(RequestError):
    """The query string has an unknown or invalid parameter."""

    status = 400
    code = "bad_question"
    title = gettext_lazy("This query parameter is not known.")
    detail = gettext_lazy("Nothing was changed. The API reference lists the parameters.")

    def __init__(self, field: str, title: Any = "") -> None:
        super().__init__(field)
        self.field = field
        self.title = title or self.title


class Conflict(RequestError):
    """The request is valid but conflicts with the current state of the study."""

    status = 409
    code = "conflict"
    detail = gettext_lazy("Nothing was changed.")

    def __init__(self, title: str, field: str | None = None) -> None:
        super().__init__(title)
        self.title, self.field = title, field  # type: ignore[assignment]


class InvalidBody(Conflict):
    """The body matches the schema but its content is invalid."""

    status = 422
    code = "invalid"


def raise_form_errors(form: BaseForm, kind: type[Conflict] = InvalidBody) -> None:
    """Raise the first error of the form, with the name of its field."""
    for name, messages in form.errors.items():
        raise kind(str(messages[0]), None if name == "__all__" else name)


def api_problem(request: HttpRequest, status: int, title: Any, detail: Any, **members: Any) -> HttpResponse:
    """Build the response; every problem has a code, which may be null."""
    return problem_response(request, status, str(title), str(detail), **{"code": None, **members})


def handle_request_error(request: HttpRequest, error: RequestError) -> HttpResponse:
    members = {"code": error.code, "field": getattr(error, "field", None), **error.extra()}
    response = api_problem(request, error.status, error.message(), error.detail, **members)
    if error.status == 429:
        response["Retry-After"] = str(error.retry_seconds)
    return response


def handle_unreadable_body(request: HttpRequest, error: UnreadableBody) -> HttpResponse:
    detail = _("Nothing was changed. Send one JSON object of at most 1 MB as application/json.")
    return api_problem(request, error.status, BODY_MESSAGES[type(error)], detail, code="unreadable")


def handle_import_error(request: HttpRequest, error: ImportFileError) -> HttpResponse:
    """List what is wrong with the items or judgements, by their number in the list."""
    detail = _("Nothing was stored; existing data are unchanged. Correct the list and send it again.")
    field = request.path.rstrip("/").removesuffix("/import").rpartition("/")[2]
    problems = [str(problem) for problem in error.problems]
    title = problems[0] if problems else error.message()
    return api_problem(request, error.status, title, detail, field=field, code="invalid", problems=problems)


def handle_unauthenticated(request: HttpRequest, error: Exception) -> HttpResponse:
    detail = _("Send a valid token as “Authorization: Bearer concord_…”.")
    response = api_problem(request, 401, _("This request needs an API token."), detail, code="no_token")
    response["WWW-Authenticate"] = "Bearer"
    return response


def handle_forbidden(request: HttpRequest, error: PermissionDenied) -> HttpResponse:
    detail = _("Nothing was changed. Ask an owner of the project for the necessary role, or create another token.")
    return api_problem(
        request, 403, str(error) or _("You do not have permission to do this."), detail, code="not_allowed"
    )


def handle_not_found(request: HttpRequest, error: Http404) -> HttpResponse:
    detail = _("Nothing was changed. Check the URL and the project it belongs to.")
    return api_problem(request, 404, str(error) or _("There is nothing at this URL."), detail, code="not_found")


def handle_http_error(request: HttpRequest, error: HttpError) -> HttpResponse:
    """Unwrap the parser's error, which ninja turns into an HttpError."""
    if not isinstance(error.__cause__, UnreadableBody):
        raise error
    return handle_unreadable_body(request, error.__cause__)


def handle_too_large(request: HttpRequest, error: RequestDataTooBig) -> HttpResponse:
    return handle_unreadable_body(request, BodyTooLarge())


def handle_invalid_field(request: HttpRequest, error: InvalidField) -> HttpResponse:
    """Respond 422, or 400 if the uuid that makes a retry safe is missing, as to a browser."""
    status = 400 if error.missing and error.field == "uuid" else 422
    detail = f"{error.message} " + _("Nothing was saved.")
    return api_problem(request, status, _("The request is incomplete."), detail, field=error.field, code="invalid")


def handle_validation_error(request: HttpRequest, error: ValidationError) -> HttpResponse:
    """Report the first error and its field, without repeating the value."""
    first = error.errors[0]
    place, *path = first["loc"]
    if place == "body" and first["type"] == "missing" and len(path) == 1:
        return handle_unreadable_body(request, EmptyBody())
    # In a body, and in nested query parameters, the path begins with the name of the view's argument.
    field = ".".join(str(part)[:MAX_FIELD_NAME] for part in (path[1:] if place == "body" or len(path) > 1 else path))
    status = STATUS_BY_PART[place]
    if first["type"] == "missing" and field == "uuid":
        status = 400
    detail = VALIDATION_MESSAGES.get(first["type"], first["msg"].removeprefix("Value error, "))
    return api_problem(request, status, _("“%(field)s” is invalid.") % {"field": field}, detail, field=field)


def handle_damaged_arrays(request: HttpRequest, error: DamagedArrays) -> HttpResponse:
    detail = _("Its ranking is safe. Use the newest version or request a fit from scratch.")
    return api_problem(request, 409, str(error.message), detail, code="no_arrays")


HANDLERS: dict[type[Exception], Any] = {
    RequestError: handle_request_error,
    UnreadableBody: handle_unreadable_body,
    ImportFileError: handle_import_error,
    AuthenticationError: handle_unauthenticated,
    PermissionDenied: handle_forbidden,
    Http404: handle_not_found,
    HttpError: handle_http_error,
    RequestDataTooBig: handle_too_large,
    InvalidField: handle_invalid_field,
    ValidationError: handle_validation_error,
    DamagedArrays: handle_damaged_arrays,
}


def add_exception_handlers(api: NinjaAPI) -> None:
    for error, handler in HANDLERS.items():
        api.add_exception_handler(error, handler)
