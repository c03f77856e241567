"""What a researcher may ask the model: forms that read, never write."""

import csv
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.core.validators import MaxLengthValidator
from django.utils.translation import gettext_lazy as _

from annotation.models import Project, Worker
from modelling.dashboards.new_argument import LONGEST_TEXT
from modelling.dashboards.pairs import MOST

LONGEST_QUERY = 1000  # letters of an address


class NewArgumentForm(forms.Form):
    """A text, and the items among which it is to be placed.

    The length is the form's to refuse: a `maxlength` in the browser would cut a pasted text without a word.
    """

    text = forms.CharField(
        label=_("Text"),
        validators=[
            MaxLengthValidator(
                LONGEST_TEXT,
                _(
                    "The text has %(show_value)d letters, and the model reads at most %(limit_value)d. "
                    "Please shorten it."
                ),
            )
        ],
        widget=forms.Textarea(attrs={"rows": 6}),
        help_text=_("Nothing is saved: the text is only read by the model."),
        error_messages={"required": _("Write or paste a text first.")},
    )
    group = forms.ChoiceField(label=_("Among the items of"), required=False)

    def __init__(self, project: Project, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["group"].choices = groups_of(project)  # type: ignore[attr-defined]

    @property
    def link(self) -> str:
        """The address that asks the same; nothing where it would be too long for some proxy or mail program."""
        query = urlencode(self.cleaned_data)
        return f"?{query}" if len(query) <= LONGEST_QUERY else ""


class PairsForm(forms.Form):
    """Which items are to meet, and in whose eyes."""

    items = forms.CharField(
        label=_("Items"),
        required=False,
        max_length=2000,
        help_text=_(
            "Their keys, with commas between them; a key that has a comma itself in quotation marks. "
            "Without any: the ten best."
        ),
    )
    group = forms.ChoiceField(label=_("The best of"), required=False)
    worker = forms.CharField(
        label=_("Worker"),
        required=False,
        max_length=40,
        help_text=_("The code of one worker. Without it: a typical worker."),
    )

    def __init__(self, project: Project, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.project = project
        self.fields["group"].choices = groups_of(project)  # type: ignore[attr-defined]

    def clean_items(self) -> list[str]:
        """As in a line of a CSV file: what is in quotation marks is one key, whatever it contains."""
        parts = next(csv.reader([self.cleaned_data["items"]], skipinitialspace=True), [])
        keys = [key.strip() for key in parts if key.strip()]
        if len(keys) > MOST:
            raise forms.ValidationError(_("Choose at most %(most)d items.") % {"most": MOST})
        return keys

    def clean_worker(self) -> Worker | None:
        code = self.cleaned_data["worker"].strip()
        found = Worker.objects.that_may_be_told().filter(project=self.project, code=code).first() if code else None
        if code and found is None:
            raise forms.ValidationError(_("There is no worker with this code in the project."))
        return found


def groups_of(project: Project) -> list[tuple[str, Any]]:
    """The groups of the items in use, and all of them first."""
    groups = project.items.filter(active=True).exclude(group="").order_by("group").values_list("group", flat=True)
    return [("", _("all groups")), *((group, group) for group in groups.distinct())]
