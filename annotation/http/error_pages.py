"""Error responses that say what happened, what is safe and what to do: HTML pages, or problem+json for scripts."""

from typing import Any

from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.utils.translation import gettext as _

from annotation.exceptions import RequestError

RETRY_SECONDS = 10
API = "/api/"


def wants_json(request: HttpRequest) -> bool:
    if request.path.startswith(API):
        return True
    return request.content_type == "application/json" or not request.accepts("text/html")


def problem_response(request: HttpRequest, status: int, title: str, detail: str, **more: Any) -> JsonResponse:
    """An RFC 9457 response for scripts, with the request id that is also in the logs."""
    body = {"type": "about:blank", "title": title, "status": status, "detail": detail, "field": None, **more}
    request_id = getattr(request, "id", "")
    return JsonResponse({**body, "request_id": request_id}, status=status, content_type="application/problem+json")


def error_response(request: HttpRequest, status: int, title: str, safe: str, todo: str) -> HttpResponse:
    if wants_json(request):
        return problem_response(request, status, title, f"{safe} {todo}".strip())
    context = {"status": status, "title": title, "safe": safe, "todo": todo}
    return render(request, "error.html", context, status=status)


def request_error_page(request: HttpRequest, error: RequestError) -> HttpResponse:
    """The error page for a worker's refused request."""
    return error_response(request, error.status, error.message(), _("Nothing was changed."), str(error.detail))


def bad_request(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    if isinstance(exception, RequestDataTooBig):
        return too_large(request)
    return error_response(
        request,
        400,
        _("We could not read that request."),
        _("Nothing was changed."),
        _("Go back, reload the page and try again."),
    )


def too_large(request: HttpRequest) -> HttpResponse:
    limit = settings.DATA_UPLOAD_MAX_MEMORY_SIZE // 1000
    return error_response(
        request,
        413,
        _("That was too long: the limit is %(limit)s kB.") % {"limit": limit},
        _("Nothing was changed."),
        _("Go back, shorten the text and send it again."),
    )


def forbidden(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    return error_response(
        request,
        403,
        _("You do not have permission to do this."),
        _("Nothing was changed."),
        _("Ask an owner of the study for the role you need."),
    )


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    if settings.CSRF_COOKIE_NAME not in request.COOKIES:  # reloading would not help
        return error_response(
            request,
            403,
            _("Your browser did not send a cookie."),
            _("Your answer is kept on this device; nothing was changed."),
            _("Allow cookies for this site and reload the page. If cookies are blocked, try another browser."),
        )
    return error_response(
        request,
        403,
        _("Your page is out of date."),
        _("Your answer is kept on this device; nothing was changed."),
        _("Reload the page and continue."),
    )


def not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    return error_response(
        request,
        404,
        _("There is no page at this address."),
        _("Nothing was changed."),
        _("Check the link, or ask the person who gave it to you."),
    )


def method_not_allowed(request: HttpRequest, allowed: str) -> HttpResponse:
    allowed = ", ".join(sorted(allowed.split(", ")))
    methods = _("Allowed methods: %(methods)s.") % {"methods": allowed}
    response = error_response(
        request,
        405,
        _("This address does not accept this kind of request."),
        _("Nothing was changed."),
        methods if wants_json(request) else _("Go back to the previous page."),
    )
    response["Allow"] = allowed
    return response


def too_many_requests(request: HttpRequest, retry_seconds: int = RETRY_SECONDS) -> HttpResponse:
    response = error_response(
        request,
        429,
        _("Too many requests in a short time."),
        _("Everything already saved is safe."),
        _("Wait a moment, then continue."),
    )
    response["Retry-After"] = str(retry_seconds)
    return response


def locked_out(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
    response = error_response(
        request,
        429,
        _("Too many failed attempts to log in."),
        _("The account is safe, and nothing was changed."),
        _(
            "Wait 15 minutes, or use a browser in which you have logged in before. You can also reset your password by "
            "email; then you can log in here at once."
        ),
    )
    response["Retry-After"] = "900"
    return response


def server_error(request: HttpRequest) -> HttpResponse:
    return error_response(
        request,
        500,
        _("Something went wrong on our side."),
        _("Everything already saved is safe."),
        _("Try again. If it happens again, send the number below to the administrator of this server."),
    )


def service_unavailable(request: HttpRequest) -> HttpResponse:
    response = error_response(
        request,
        503,
        _("The server cannot reach its database, or its disk is full."),
        _("Everything already saved is safe. An answer given now is not saved yet; keep this page open."),
        _("Try again in a few seconds."),
    )
    response["Retry-After"] = str(RETRY_SECONDS)
    return response
