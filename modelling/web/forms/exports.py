"""The export request form."""

from typing import Any

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from modelling.exports.catalogue import export_names, formats_for
from modelling.exports.points import MAX_SEQUENCE_DIGITS

LARGEST_VERSION = 2**31 - 1


class ExportForm(forms.Form):
    """One file; the format may be left out where there is only one."""

    what = forms.ChoiceField(label=gettext_lazy("what"), choices=lambda: [(name, name) for name in export_names()])
    format = forms.CharField(label=gettext_lazy("format"), required=False, max_length=10)
    as_of = forms.IntegerField(
        label=gettext_lazy("up to event"), required=False, min_value=0, max_value=10**MAX_SEQUENCE_DIGITS
    )
    version = forms.IntegerField(label=gettext_lazy("version"), required=False, min_value=1, max_value=LARGEST_VERSION)
    licence = forms.CharField(label=gettext_lazy("licence"), required=False, max_length=200)

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        formats = formats_for(data.get("what", ""))
        if formats and data.get("format", "") not in ("", *formats):
            self.add_error("format", _("Available formats: %(all)s.") % {"all": ", ".join(formats)})
        data["format"] = data.get("format") or next(iter(formats), "")
        return data
