"""Every refusal in plain words: what happened, what is safe, what to do. Pages for people, problem+json for scripts."""

from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.utils.translation import gettext as _

RETRY_SECONDS = 10


API = "/api/"  # whatever is asked below this address is asked by a script


def wants_json(request: HttpRequest) -> bool:
    if request.path.startswith(API):
        return True
    return request.content_type == "application/json" or not request.accepts("text/html")


def problem(request: HttpRequest, status: int, title: str, detail: str, **more: Any) -> JsonResponse:
    """An RFC 9457 answer for scripts: what happened, what is safe, what to do, and the id to find it in the logs."""
    body = {"type": "about:blank", "title": title, "status": status, "detail": detail, "field": None, **more}
    number = getattr(request, "id", "")
    return JsonResponse({**body, "request_id": number}, status=status, content_type="application/problem+json")


def refuse(request: HttpRequest, status: int, title: str, safe: str, todo: str) -> HttpResponse:
    """One answer for a person or for a script, whoever asks."""
    if wants_json(request):
        return problem(request, status, title, f"{safe} {todo}".strip())
    context = {"status": status, "title": title, "safe": safe, "todo": todo}
    return render(request, "error.html", context, status=status)


def bad_request(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    return refuse(
        request,
        400,
        _("We could not read that request."),
        _("Nothing was changed."),
        _("Go back, reload the page and try again."),
    )


def forbidden(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    return refuse(
        request,
        403,
        _("Your account may not do this."),
        _("Nothing was changed."),
        _("Ask an owner of the project for the role you need."),
    )


def csrf_failed(request: HttpRequest, reason: str = "") -> HttpResponse:
    return refuse(
        request,
        403,
        _("Your page is out of date."),
        _("Your answer is kept on this device; nothing was changed."),
        _("Reload the page and go on."),
    )


def not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    return refuse(
        request,
        404,
        _("There is nothing at this address."),
        _("Nothing was lost."),
        _("Check the link, or ask the person who gave it to you."),
    )


def wrong_method(request: HttpRequest, allowed: str) -> HttpResponse:
    response = refuse(
        request,
        405,
        _("This address cannot be opened in that way."),
        _("Nothing was changed."),
        _("Go back to the page you came from."),
    )
    response["Allow"] = allowed
    return response


def too_many(request: HttpRequest, retry_seconds: int = RETRY_SECONDS) -> HttpResponse:
    response = refuse(
        request,
        429,
        _("That was too fast for us."),
        _("What was saved is safe."),
        _("Wait a moment, then go on."),
    )
    response["Retry-After"] = str(retry_seconds)
    return response


def locked_out(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
    response = refuse(
        request,
        429,
        _("Too many attempts to log in."),
        _("The account is safe and nothing was changed."),
        _("Wait 15 minutes, then try again."),
    )
    response["Retry-After"] = "900"
    return response


def server_error(request: HttpRequest) -> HttpResponse:
    return refuse(
        request,
        500,
        _("Something went wrong on our side."),
        _("What was saved before is safe."),
        _("Try again. If it happens again, tell the person who runs this server the number below."),
    )


def unavailable(request: HttpRequest) -> HttpResponse:
    response = refuse(
        request,
        503,
        _("The server cannot reach its database, or its disk is full."),
        _("What was saved before is safe. An answer given now is not saved yet; keep this page open."),
        _("Try again in a few seconds."),
    )
    response["Retry-After"] = str(RETRY_SECONDS)
    return response
