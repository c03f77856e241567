"""A researcher's own password: changed, or set anew by a letter. Django's views, with limits and the house's words."""

from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import views as django_views
from django.contrib.auth.forms import SetPasswordForm
from django.contrib.messages.views import SuccessMessageMixin
from django.db import transaction
from django.forms import Form
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse, reverse_lazy
from django.utils.decorators import method_decorator
from django.utils.module_loading import import_string
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_http_methods

from annotation import letters, throttling
from annotation.errors import too_many
from annotation.forms.accounts import ChangePasswordForm, NewPasswordForm, ResetForm

METHODS = ["get", "head", "post"]
WAIT_SECONDS = 900


class ChangePassword(SuccessMessageMixin, django_views.PasswordChangeView):
    """This session goes on; every other one of this account ends."""

    template_name = "registration/password_change.html"
    form_class = ChangePasswordForm
    success_url = reverse_lazy("annotation:projects")
    success_message = _(
        "Your password is changed. Wherever else you were logged in, you are not any more. Your API tokens still work."
    )
    http_method_names = METHODS

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if throttling.too_many_guesses(str(request.user.pk)):
            return too_many(request, retry_seconds=WAIT_SECONDS)
        return super().post(request, *args, **kwargs)


class AskForReset(django_views.PasswordResetView):
    """Whoever asks is told the same, whether there is such an account or not."""

    template_name = "registration/password_reset.html"
    email_template_name = "registration/password_reset_letter.txt"
    subject_template_name = "registration/password_reset_subject.txt"
    success_url = reverse_lazy("password_reset_sent")
    form_class = ResetForm
    http_method_names = METHODS

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if throttling.too_many_resets(request):
            return too_many(request, retry_seconds=WAIT_SECONDS)
        return super().post(request, *args, **kwargs)

    def form_valid(self, form: Form) -> HttpResponse:
        """The letter's links lead to the configured address, whatever the request says it is."""
        if not throttling.too_many_letters(form.cleaned_data["email"]):
            scheme, _separator, rest = letters.address_of(self.request, "/").partition("://")
            form.save(  # type: ignore[attr-defined]
                domain_override=rest.rstrip("/"),
                use_https=scheme == "https",
                email_template_name=self.email_template_name,
                subject_template_name=self.subject_template_name,
                request=self.request,
            )
        return HttpResponseRedirect(str(self.success_url))


class ResetSent(django_views.PasswordResetDoneView):
    template_name = "registration/password_reset_sent.html"
    http_method_names = METHODS


@method_decorator(require_http_methods(["GET", "HEAD", "POST"]), name="dispatch")  # Django's asks about links first
class SetPassword(django_views.PasswordResetConfirmView):
    """The link of the letter: a new password, once. Nothing that opened the account before opens it any more."""

    template_name = "registration/password_reset_confirm.html"
    form_class = NewPasswordForm
    success_url = reverse_lazy("login")

    def form_valid(self, form: SetPasswordForm) -> HttpResponse:
        with transaction.atomic():
            answer = super().form_valid(form)
            for name in settings.AFTER_RESET:
                import_string(name)(self.user)
        words = _("Your new password is set. Log in with it. If you had API tokens, they are revoked.")
        messages.success(self.request, words)
        return answer

    def render_to_response(self, context: dict[str, Any], **more: Any) -> HttpResponse:
        """A link that was used or has run out is gone, and the page says where to get another."""
        gone = not context["validlink"]
        context["ask"] = reverse("password_reset")
        return super().render_to_response(context, status=410 if gone else 422 if context["form"].is_bound else 200)
