"""Forms for workers who return to a study or delete their data."""

from django import forms
from django.utils.translation import gettext_lazy as _


class ReturnForm(forms.Form):
    """The return code of a worker who was here before."""

    code = forms.CharField(
        label=_("your return code"),
        max_length=60,
        widget=forms.TextInput(
            attrs={"class": "code", "autocapitalize": "none", "autocomplete": "off", "spellcheck": "false"}
        ),
        help_text=_("Fifteen letters and digits. Capitals, spaces and hyphens do not matter."),
        error_messages={"required": _("Enter your return code.")},
    )


class DeleteDataForm(forms.Form):
    """A checkbox that confirms the deletion."""

    confirm = forms.BooleanField(
        label=_("Delete all my answers. I know that this cannot be undone."),
        error_messages={"required": _("Please tick the box if you want to delete your answers.")},
    )
