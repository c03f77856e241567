"""The `dashboard` decorator for all pages about the shown version: fragments, ETags and CSV tables of figures."""

import re
from collections.abc import Callable
from functools import wraps
from hashlib import sha256
from pathlib import PurePosixPath
from typing import Any, cast

from csp.decorators import csp_update
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.cache import get_conditional_response
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from annotation.http.access import SAFE_METHODS, Role, View, has_role, members_only
from annotation.models import Project
from annotation.views import ResearcherRequest
from modelling.dashboards.common.freshness import Freshness, get_freshness
from modelling.training.storage.array_store import DamagedArrays, EarlierRelease
from modelling.web.views.downloads import csv_download

Context = dict[str, Any]

CSRF_FIELD = re.compile(rb'name="csrfmiddlewaretoken" value="[^"]*"')

# Plotly saves a figure through a blob URL.
allow_plotly: Any = csp_update({"img-src": ["blob:"]})


def dashboard(template: str, *, methods: tuple[str, ...] = SAFE_METHODS) -> Callable[[Callable[..., Context]], View]:
    """Turn a function that returns a page's context into a view of the shown version.

    `?fragment=status` renders only the status lines, any other fragment the live part of the page, and `?csv=name` the
    table of a figure. Such a view changes no study data, whatever the method, so archived projects are allowed.
    """

    def decorate(get_context: Callable[..., Context]) -> View:
        @wraps(get_context)
        @require_http_methods(methods)
        @members_only(Role.VIEWER, archived=True)
        @allow_plotly
        def view(request: ResearcherRequest, project: Project, **kwargs: Any) -> HttpResponse:
            if "csv" in request.GET and not has_role(request.role, Role.ANALYST):
                raise PermissionDenied
            freshness = get_freshness(project)
            name, context = _template_and_context(request, freshness, template, get_context, kwargs)
            if "csv" in request.GET:
                return _figure_csv(request, context, freshness)
            response = render(request, name, context)
            response["Cache-Control"] = "private, no-cache"
            return _conditional(request, response)

        return view

    return decorate


def _template_and_context(
    request: HttpRequest,
    freshness: Freshness,
    template: str,
    get_context: Callable[..., Context],
    url_arguments: dict[str, Any],
) -> tuple[str, Context]:
    context: Context = {"project": freshness.project, "freshness": freshness}
    fragment = request.GET.get("fragment")
    if fragment == "status":
        return "modelling/common/_freshness.html", context
    try:
        context |= get_context(request, freshness, **url_arguments)
    except DamagedArrays as error:
        template, context["earlier_release"] = "no_model_data.html", isinstance(error, EarlierRelease)
    path = PurePosixPath("modelling", template)
    return str(path if fragment is None else path.with_name(f"_{path.name}")), context


def _figure_csv(request: ResearcherRequest, context: Context, freshness: Freshness) -> HttpResponse:
    """The table of one of the page's figures as CSV, recorded in the audit log."""
    name = request.GET["csv"]
    figures = [(value, figure) for value in context.values() for figure in getattr(value, "figures", [])]
    for page, figure in figures:
        if figure.name == name and figure.table:
            version = getattr(page, "version_number", freshness.version_number)
            details = {"figure": name, "version": version, "page": request.path}
            action, table = "exported the numbers of a figure", figure.table
            file = f"{freshness.project.slug}-{name}-v{version}"
            return csv_download(freshness.project, request.user, action, file, table.columns, table.rows, details)
    raise Http404(_("There is no such table."))


def _conditional(request: HttpRequest, response: HttpResponse) -> HttpResponse:
    """Answer 304 for a fragment that the browser already has.

    Only fragments are conditional: a whole page also depends on the user, and a POST on its body. CSRF tokens differ
    in every response, so the ETag uses the CSRF secret instead, which changes at login.
    """
    if "fragment" not in request.GET or request.method not in SAFE_METHODS:
        return response
    secret = request.META.get("CSRF_COOKIE", "").encode()
    etag = f'"{sha256(secret + CSRF_FIELD.sub(b"", response.content)).hexdigest()}"'
    response["ETag"] = etag
    return cast(HttpResponse, get_conditional_response(request, etag=etag, response=response))
