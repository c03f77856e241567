"""For people: the documentation of the API, and the page where tokens are made and revoked."""

from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from annotation.views import ResearcherRequest
from modelling.api.forms import TokenForm
from modelling.api.reference import reference
from modelling.api.site import api
from modelling.models import ApiToken
from modelling.tokens import make_token, revoke_token


@require_safe
def document(request: HttpRequest) -> HttpResponse:
    """The OpenAPI document."""
    return JsonResponse(api.get_openapi_schema())


@require_safe
def documentation(request: HttpRequest) -> HttpResponse:
    """Every operation, what it takes, what it answers and an example: plain HTML from the same document."""
    address = request.build_absolute_uri("/").rstrip("/")
    return render(request, "modelling/api.html", {"reference": reference(api.get_openapi_schema(), address)})


@never_cache
@login_required
@require_http_methods(["GET", "HEAD", "POST"])
@sensitive_variables("words")
def tokens(request: ResearcherRequest) -> HttpResponse:
    """Your tokens. A new one is shown in the answer to this very request and never again."""
    form = TokenForm(request.user, request.POST if request.method == "POST" else None)
    context: dict[str, Any] = {"form": form}
    if form.is_valid():
        token, words = make_token(user=request.user, **form.cleaned_data)
        context = {"form": TokenForm(request.user), "made": token, "words": words}
    context["tokens"] = ApiToken.objects.filter(user=request.user).select_related("project")
    return render(request, "modelling/tokens.html", context, status=422 if form.errors else 200)


@login_required
@require_POST
def revoke(request: ResearcherRequest, pk: int) -> HttpResponse:
    """The token opens nothing from now on."""
    revoke_token(token=get_object_or_404(ApiToken, user=request.user, pk=pk), user=request.user)
    messages.success(request, _("The token is revoked."))
    return redirect("modelling:tokens")
