"""What may be asked for as a file: fixed names, and numbers that a point can have."""

from typing import Any

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from modelling.exporting.catalogue import formats_of, names
from modelling.exporting.points import MOST_DIGITS

LARGEST_VERSION = 2**31 - 1


class ExportForm(forms.Form):
    """One file. The format may be left out where there is only one."""

    what = forms.ChoiceField(label=gettext_lazy("what"), choices=lambda: [(name, name) for name in names()])
    format = forms.CharField(label=gettext_lazy("format"), required=False, max_length=10)
    as_of = forms.IntegerField(
        label=gettext_lazy("up to event"), required=False, min_value=0, max_value=10**MOST_DIGITS
    )
    version = forms.IntegerField(label=gettext_lazy("version"), required=False, min_value=1, max_value=LARGEST_VERSION)
    licence = forms.CharField(label=gettext_lazy("licence"), required=False, max_length=200)

    def clean(self) -> dict[str, Any]:
        given = super().clean() or {}
        known = formats_of(given["what"]) if "what" in given else []
        if known and given.get("format", "") not in ("", *known):
            self.add_error("format", _("This can be had as: %(all)s.") % {"all": ", ".join(known)})
        given["format"] = given.get("format") or next(iter(known), "")
        return given
