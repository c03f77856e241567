"""Log in with a password and, if the account has one, a second factor; set it up, renew its codes, switch it off."""

import time
from typing import Any

from axes.handlers.proxy import AxesProxyHandler
from django.contrib import messages
from django.contrib.auth import load_backend, login, user_login_failed
from django.contrib.auth import views as django_views
from django.contrib.auth.decorators import login_required
from django.contrib.auth.forms import AuthenticationForm
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.crypto import constant_time_compare
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from annotation.forms.accounts import CodeForm
from annotation.http import throttling
from annotation.http.error_pages import locked_out, too_many_requests
from annotation.models import TwoFactor
from annotation.services import two_factor
from annotation.views import ResearcherRequest

PENDING = "two_factor"  # session key for the time between password and code
PENDING_SECONDS = 600
WAIT_SECONDS = 900


class LogIn(django_views.LoginView):
    """Check the password; an account with a second factor is logged in by the next page."""

    redirect_authenticated_user = True
    http_method_names = ["get", "head", "post"]

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        user = form.get_user()
        if two_factor.find_two_factor(user) is None:
            return super().form_valid(form)
        self.request.session[PENDING] = {
            "user": user.pk,
            "backend": user.backend,
            "hash": user.get_session_auth_hash(),
            "at": time.time(),
            "next": self.get_success_url(),
        }
        return redirect("login_code")


@never_cache
@sensitive_post_parameters("code")
@require_http_methods(["GET", "HEAD", "POST"])
def log_in_with_code(request: HttpRequest) -> HttpResponse:
    """Ask for the second factor's code once the password has been accepted."""
    factor = _pending_factor(request)
    if factor is None:
        return redirect("login")
    form = CodeForm(request.POST if request.method == "POST" else None)
    if form.is_valid():
        credentials = {"username": factor.user.get_username()}
        if not AxesProxyHandler.is_allowed(request, credentials):
            return locked_out(request)
        if throttling.too_many_code_attempts(factor.user_id):
            return too_many_requests(request, retry_seconds=WAIT_SECONDS)
        if two_factor.accept_code(factor, form.cleaned_data["code"]):
            pending = request.session.pop(PENDING)
            login(request, factor.user, backend=pending["backend"])
            return redirect(pending["next"])
        form.add_error("code", _("This code is wrong or has been used. Enter the code that the app shows now."))
        user_login_failed.send(sender=__name__, credentials=credentials, request=request)
    return render(request, "registration/login_code.html", {"form": form}, status=422 if form.errors else 200)


def _pending_factor(request: HttpRequest) -> TwoFactor | None:
    """The second factor of the account logging in; None if the password was entered too long ago or has changed."""
    pending: dict[str, Any] = request.session.get(PENDING, {})
    if not pending or time.time() - pending["at"] > PENDING_SECONDS:
        return None
    user = load_backend(pending["backend"]).get_user(pending["user"])
    if user is None or not constant_time_compare(user.get_session_auth_hash(), pending["hash"]):
        return None
    return two_factor.find_two_factor(user)


@never_cache
@login_required
@sensitive_post_parameters("code")
@require_http_methods(["GET", "HEAD", "POST"])
def manage(request: ResearcherRequest) -> HttpResponse:
    """Set the second factor up, renew its recovery codes or switch it off."""
    factor = TwoFactor.objects.filter(user=request.user).select_related("user").first()
    action = request.POST.get("action", "")
    if action == "begin" and (factor is None or factor.confirmed_at is None):
        two_factor.begin_setup(request.user)
        return redirect("two_factor")
    form = CodeForm(request.POST if action in ("confirm", "renew", "disable") else None)
    if factor is not None and form.is_valid():
        if throttling.too_many_code_attempts(request.user.pk):
            return too_many_requests(request, retry_seconds=WAIT_SECONDS)
        done = _act(request, factor, action, form.cleaned_data["code"])
        if done is not None:
            return done
        form.add_error("code", _("This code is wrong or has been used. Enter the code that the app shows now."))
    return _page(request, factor, form, action, status=422 if form.errors else 200)


def _act(request: ResearcherRequest, factor: TwoFactor, action: str, code: str) -> HttpResponse | None:
    """Confirm, renew or switch off the second factor; None if the code is wrong."""
    if factor.confirmed_at is None:
        codes = two_factor.confirm_setup(factor, code) if action == "confirm" else None
        return None if codes is None else _page(request, factor, CodeForm(), codes=codes)
    if action == "confirm" or not two_factor.accept_code(factor, code):
        return None
    if action == "renew":
        return _page(request, factor, CodeForm(), codes=two_factor.renew_recovery_codes(factor))
    two_factor.disable(request.user)
    messages.success(request, _("Two-factor log-in is switched off. Logging in needs only your password now."))
    return redirect("two_factor")


def _page(
    request: HttpRequest, factor: TwoFactor | None, form: CodeForm, action: str = "", status: int = 200, **context: Any
) -> HttpResponse:
    context |= {"factor": factor, "form": form, "action": action}
    if factor is not None and factor.confirmed_at is None and "codes" not in context:
        context |= {"address": two_factor.provisioning_uri(factor), "secret": two_factor.reveal_secret(factor)}
    if factor is not None and factor.confirmed_at is not None and "codes" not in context:
        context["codes_left"] = factor.recovery_codes.count()
    return render(request, "registration/two_factor.html", context, status=status)
