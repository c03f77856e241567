"""The form for a new API token."""

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from annotation.models import Project, User
from modelling.models import ApiToken

LIFETIMES = [(7, _("a week")), (30, _("30 days")), (90, _("90 days")), (365, _("a year"))]
DEFAULT_DAYS = 90


class TokenForm(forms.Form):
    name = forms.CharField(
        label=_("name"),
        max_length=60,
        help_text=_("Its purpose, so that you know later which token to revoke."),
    )
    scope = forms.ChoiceField(label=_("permissions"), choices=ApiToken.Scope.choices, initial=ApiToken.Scope.READ)
    project = forms.ModelChoiceField(
        label=_("study"),
        queryset=Project.objects.none(),
        to_field_name="slug",
        required=False,
        empty_label=_("all my studies"),
    )
    days = forms.TypedChoiceField(label=_("expires after"), coerce=int, choices=LIFETIMES, initial=DEFAULT_DAYS)

    def __init__(self, user: User, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["project"].queryset = Project.objects.visible_to(user)  # type: ignore[attr-defined]
