"""Forms for accounts, passwords, the second factor, members and invitations."""

from typing import Any

from django import forms
from django.contrib.auth.forms import PasswordChangeForm, PasswordResetForm, SetPasswordForm, UserCreationForm
from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from annotation.models import Membership, User
from annotation.services import email

PASSWORD_RULES = gettext_lazy(
    "At least 12 characters. Not only digits, no common password, and not similar to your name."
)

# Says less than Django's message: it should not confirm that a person has an account.
NAME_UNAVAILABLE = gettext_lazy("This username cannot be used. Choose another.")


class NewAccountForm(UserCreationForm):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["password1"].help_text = PASSWORD_RULES

    class Meta:
        model = User
        fields = ["username", "email"]
        error_messages = {"username": {"unique": NAME_UNAVAILABLE}}
        help_texts = {
            "username": gettext_lazy("Letters, digits and @ . + - _ only."),
            "email": gettext_lazy("Used if you forget your password."),
        }


class NewPasswordForm(SetPasswordForm):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["new_password1"].help_text = PASSWORD_RULES


class ChangePasswordForm(NewPasswordForm, PasswordChangeForm):
    """A new password, confirmed by entering the old one."""


class ResetForm(PasswordResetForm):
    """Django's form with email sent in the background: the response time must not reveal whether an account exists."""

    def send_mail(self, *args: Any, **kwargs: Any) -> None:
        email.run_in_background(super().send_mail, *args, **kwargs)


class CodeForm(forms.Form):
    """A code from the authenticator app, or a recovery code."""

    code = forms.CharField(
        label=gettext_lazy("code"),
        max_length=30,
        widget=forms.TextInput(
            attrs={"autocomplete": "one-time-code", "autocapitalize": "none", "spellcheck": "false", "autofocus": True}
        ),
    )


class MemberForm(forms.Form):
    """An existing user and their role; an empty role removes the member."""

    member = forms.CharField(label=gettext_lazy("username"), max_length=150)
    role = forms.ChoiceField(
        label=gettext_lazy("role"),
        choices=Membership.Role.choices,
        initial=Membership.Role.VIEWER,
        required=False,
    )

    def clean_member(self) -> User:
        member = User.objects.filter(username=self.cleaned_data["member"], is_active=True).first()
        if member is None:
            raise ValidationError(
                _("There is no active user with this name. Check the spelling, or send an invitation instead.")
            )
        return member

    def clean_role(self) -> str | None:
        return self.cleaned_data["role"] or None


class InvitationForm(forms.Form):
    """The role of the invited person, and optionally where to send the link."""

    role = forms.ChoiceField(
        label=gettext_lazy("role"), choices=Membership.Role.choices, initial=Membership.Role.VIEWER
    )
    email = forms.EmailField(
        label=gettext_lazy("email address"),
        required=False,
        max_length=254,
        help_text=gettext_lazy("The link is sent to this address. Leave it empty to pass the link on yourself."),
    )
