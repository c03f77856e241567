"""Accounts of researchers: made through an invitation, and helped back in when a password is forgotten."""

from typing import Any

from django import forms
from django.contrib.auth.forms import PasswordChangeForm, PasswordResetForm, SetPasswordForm, UserCreationForm
from django.utils.translation import gettext_lazy as _

from annotation import letters
from annotation.models import Membership, User


class InvitationForm(forms.Form):
    """The role of whoever comes by the link, and where to send it."""

    role = forms.ChoiceField(label=_("role"), choices=Membership.Role.choices, initial=Membership.Role.VIEWER)
    email = forms.EmailField(
        label=_("e-mail address"),
        required=False,
        max_length=254,
        help_text=_("The link is sent there. Without one, you pass it on yourself."),
    )


PASSWORD_RULES = _("At least 12 characters, not only digits, no common password, nothing like your name.")


class NewAccountForm(UserCreationForm):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["password1"].help_text = PASSWORD_RULES

    class Meta:
        model = User
        fields = ["username", "email"]
        help_texts = {
            "username": _("Letters, digits and @ . + - _ only."),
            "email": _("For a new password, should you forget yours."),
        }


class NewPasswordForm(SetPasswordForm):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["new_password1"].help_text = PASSWORD_RULES


class ChangePasswordForm(NewPasswordForm, PasswordChangeForm):
    """The same, for who knows the old one."""


class ResetForm(PasswordResetForm):
    """Django's form; the letter is written and sent beside the request, so that its time tells nobody anything."""

    def send_mail(self, *args: Any, **kwargs: Any) -> None:
        letters.later(super().send_mail, *args, **kwargs)
