"""Change or reset a researcher's password: Django's views with throttling and our own messages."""

from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import views as django_views
from django.contrib.auth.forms import SetPasswordForm
from django.contrib.messages.views import SuccessMessageMixin
from django.db import transaction
from django.forms import Form
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse_lazy
from django.utils.decorators import method_decorator
from django.utils.module_loading import import_string
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_http_methods

from annotation.forms.accounts import ChangePasswordForm, NewPasswordForm, ResetForm
from annotation.http import throttling
from annotation.http.error_pages import too_many_requests
from annotation.http.login_limits import remember_device
from annotation.http.public_address import build_absolute_url

METHODS = ["get", "head", "post"]
WAIT_SECONDS = 900


class ChangePassword(SuccessMessageMixin, django_views.PasswordChangeView):
    """Change the password and end all other sessions of the account."""

    template_name = "registration/password_change.html"
    form_class = ChangePasswordForm
    success_url = reverse_lazy("annotation:projects")
    success_message = _("Your password was changed. All other sessions were logged out. Your API tokens still work.")
    http_method_names = METHODS

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if throttling.too_many_password_attempts(str(request.user.pk)):
            return too_many_requests(request, retry_seconds=WAIT_SECONDS)
        return super().post(request, *args, **kwargs)


class RequestPasswordReset(django_views.PasswordResetView):
    """Email a reset link; the response does not reveal whether the account exists."""

    template_name = "registration/password_reset.html"
    email_template_name = "registration/password_reset_email.txt"
    subject_template_name = "registration/password_reset_subject.txt"
    success_url = reverse_lazy("password_reset_sent")
    form_class = ResetForm
    http_method_names = METHODS

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if throttling.too_many_resets(request):
            return too_many_requests(request, retry_seconds=WAIT_SECONDS)
        return super().post(request, *args, **kwargs)

    def form_valid(self, form: Form) -> HttpResponse:
        """Send the link with the configured public address, not with the Host header of the request."""
        if not throttling.too_many_emails(form.cleaned_data["email"]):
            scheme, _separator, rest = build_absolute_url(self.request, "/").partition("://")
            form.save(  # type: ignore[attr-defined]
                domain_override=rest.rstrip("/"),
                use_https=scheme == "https",
                email_template_name=self.email_template_name,
                subject_template_name=self.subject_template_name,
                request=self.request,
            )
        return HttpResponseRedirect(str(self.success_url))


class PasswordResetSent(django_views.PasswordResetDoneView):
    template_name = "registration/password_reset_sent.html"
    http_method_names = METHODS


@method_decorator(require_http_methods(["GET", "HEAD", "POST"]), name="dispatch")  # Django's view checks the link first
class SetNewPassword(django_views.PasswordResetConfirmView):
    """Set a new password with the emailed link, which works once; API tokens are revoked."""

    template_name = "registration/password_reset_confirm.html"
    form_class = NewPasswordForm
    success_url = reverse_lazy("login")

    def form_valid(self, form: SetPasswordForm) -> HttpResponse:
        with transaction.atomic():
            response = super().form_valid(form)
            for name in settings.AFTER_RESET:
                import_string(name)(self.user)
        remember_device(self.request, form.user.get_username())  # failed log-ins elsewhere must not lock the user out
        messages.success(self.request, _("Your new password is set. Please log in. Your API tokens were revoked."))
        return response

    def render_to_response(self, context: dict[str, Any], **more: Any) -> HttpResponse:
        """Respond with 410 to a used or expired link."""
        expired = not context["validlink"]
        return super().render_to_response(context, status=410 if expired else 422 if context["form"].is_bound else 200)
