"""Forms that query the model without changing anything."""

import csv
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.core.validators import MaxLengthValidator
from django.utils.translation import gettext_lazy as _

from annotation.models import Project, Worker
from modelling.dashboards.new_text import MAX_TEXT_LENGTH
from modelling.dashboards.pairs import MAX_ITEMS

MAX_QUERY_LENGTH = 1000  # of a URL that is offered as a link


class NewTextForm(forms.Form):
    """A text, and the group of items to rank it in.

    There is no `maxlength` attribute: a browser would cut a pasted text without a message.
    """

    text = forms.CharField(
        label=_("Text"),
        validators=[
            MaxLengthValidator(
                MAX_TEXT_LENGTH,
                _("The text has %(show_value)d characters; at most %(limit_value)d are allowed. Please shorten it."),
            )
        ],
        widget=forms.Textarea(attrs={"rows": 6}),
        help_text=_("The text is not saved."),
        error_messages={"required": _("Enter a text.")},
    )
    group = forms.ChoiceField(label=_("Rank among"), required=False)

    def __init__(self, project: Project, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["group"].choices = group_choices(project)  # type: ignore[attr-defined]

    @property
    def link(self) -> str:
        """The URL of the same query; empty if it would be too long for some proxies and mail programs."""
        query = urlencode(self.cleaned_data)
        return f"?{query}" if len(query) <= MAX_QUERY_LENGTH else ""


class PairsForm(forms.Form):
    """Which items to compare, and for which worker."""

    items = forms.CharField(
        label=_("Items"),
        required=False,
        max_length=2000,
        help_text=_(
            "Keys separated by commas; put a key with a comma in quotation marks. Leave empty for the ten best items."
        ),
    )
    group = forms.ChoiceField(label=_("Best items of"), required=False)
    worker = forms.CharField(
        label=_("Worker"),
        required=False,
        max_length=40,
        help_text=_("A worker's code. Leave empty to predict for a random member of the crowd."),
    )

    def __init__(self, project: Project, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.project = project
        self.fields["group"].choices = group_choices(project)  # type: ignore[attr-defined]

    def clean_items(self) -> list[str]:
        """Parse the keys like a line of a CSV file."""
        parts = next(csv.reader([self.cleaned_data["items"]], skipinitialspace=True), [])
        keys = [key.strip() for key in parts if key.strip()]
        if len(keys) > MAX_ITEMS:
            raise forms.ValidationError(_("Choose at most %(most)d items.") % {"most": MAX_ITEMS})
        return keys

    def clean_worker(self) -> Worker | None:
        code = self.cleaned_data["worker"].strip()
        worker = Worker.objects.visible().filter(project=self.project, code=code).first() if code else None
        if code and worker is None:
            raise forms.ValidationError(_("There is no worker with this code in the study."))
        return worker


def group_choices(project: Project) -> list[tuple[str, Any]]:
    """All groups of active items, after a choice for all of them."""
    groups = project.items.filter(active=True).exclude(group="").order_by("group").values_list("group", flat=True)
    return [("", _("all groups")), *((group, group) for group in groups.distinct())]
