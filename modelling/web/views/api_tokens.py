"""The API reference, the OpenAPI document, and the page to create and revoke tokens."""

from functools import cache
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import cache_control, never_cache
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from annotation.http.public_address import build_absolute_url
from annotation.views import ResearcherRequest
from modelling.models import ApiToken
from modelling.web.api.router import api
from modelling.web.api.tokens import create_token, revoke_token
from modelling.web.forms.tokens import TokenForm

CACHE_SECONDS = 300


@require_safe
@cache_control(public=True, max_age=CACHE_SECONDS)
def document(request: HttpRequest) -> HttpResponse:
    return HttpResponse(_document(), content_type="application/json")


@cache
def _document() -> bytes:
    """The OpenAPI document, which takes a while to generate and does not change while the process runs."""
    return JsonResponse(api.get_openapi_schema()).content


@require_safe
@cache_control(private=True, max_age=CACHE_SECONDS)
def documentation(request: HttpRequest) -> HttpResponse:
    """Show a short introduction and the API reference, drawn from the OpenAPI document by Swagger UI."""
    return render(request, "modelling/api/api.html", {"address": build_absolute_url(request, "/").rstrip("/")})


@never_cache
@login_required
@require_http_methods(["GET", "HEAD", "POST"])
@sensitive_variables("secret")
def tokens(request: ResearcherRequest) -> HttpResponse:
    """List the user's tokens; POST creates one, whose secret is shown in this response only."""
    form = TokenForm(request.user, request.POST if request.method == "POST" else None)
    context: dict[str, Any] = {"form": form}
    if form.is_valid():
        token, secret = create_token(user=request.user, **form.cleaned_data)
        context = {"form": TokenForm(request.user), "created": token, "secret": secret}
    context["tokens"] = ApiToken.objects.filter(user=request.user).select_related("project")
    return render(request, "modelling/api/tokens.html", context, status=422 if form.errors else 200)


@login_required
@require_POST
def revoke(request: ResearcherRequest, pk: int) -> HttpResponse:
    revoke_token(token=get_object_or_404(ApiToken, user=request.user, pk=pk), user=request.user)
    messages.success(request, _("Token revoked."))
    return redirect("modelling:tokens")
