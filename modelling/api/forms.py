"""What a new token is for, and how long."""

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from annotation.models import Project, User
from modelling.models import ApiToken

LIFETIMES = [(7, _("a week")), (30, _("30 days")), (90, _("90 days")), (365, _("a year"))]
USUAL_DAYS = 90


class TokenForm(forms.Form):
    name = forms.CharField(
        label=_("name"),
        max_length=60,
        help_text=_("What it is for, so that you know later which one to revoke."),
    )
    scope = forms.ChoiceField(label=_("it may"), choices=ApiToken.Scope.choices, initial=ApiToken.Scope.READ)
    project = forms.ModelChoiceField(
        label=_("project"),
        queryset=Project.objects.none(),
        to_field_name="slug",
        required=False,
        empty_label=_("all my projects"),
    )
    days = forms.TypedChoiceField(label=_("it expires after"), coerce=int, choices=LIFETIMES, initial=USUAL_DAYS)

    def __init__(self, user: User, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["project"].queryset = Project.objects.seen_by(user)  # type: ignore[attr-defined]
