"""The form for excluding a worker."""

from django import forms
from django.utils.translation import gettext_lazy as _


class ExclusionForm(forms.Form):
    reason = forms.CharField(
        label=_("Reason"),
        max_length=200,
        help_text=_("The reason stays in the list of changes and in the archive; write nothing personal."),
        error_messages={
            "required": _("Give a reason. Nothing was changed."),
            "max_length": _("The reason may have up to 200 characters. Nothing was changed."),
        },
    )
    suspend = forms.BooleanField(
        label=_("Give this worker no more pairs"),
        required=False,
        initial=True,
        help_text=_(
            "Otherwise they can go on judging, but their new answers do not count either. Their pay is not affected: "
            "they can finish as if no pairs were left."
        ),
    )
