"""One item by hand: a new one, or a correction of its text and group."""

from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from annotation.curation import MAX_GROUP, MAX_KEY, tidy_text
from annotation.models import Item, Project
from annotation.models.items import MAX_TEXT


class TextArea(forms.CharField):
    """Words as they will be read: nothing is cut off, line ends are of one kind, and their length is counted so."""

    widget = forms.Textarea(attrs={"rows": 8})

    def to_python(self, value: Any) -> str:
        return tidy_text(super().to_python(value) or "")

    def validate(self, value: str) -> None:
        super().validate(value.strip())


class CorrectionForm(forms.Form):
    """The text and group of the revision that the page showed."""

    text = TextArea(label=gettext_lazy("Text"), max_length=MAX_TEXT, strip=False)
    group = forms.CharField(
        label=gettext_lazy("Group"),
        max_length=MAX_GROUP,
        required=False,
        help_text=gettext_lazy("Topic and stance, for instance."),
    )


class ItemForm(CorrectionForm):
    key = forms.CharField(
        label=gettext_lazy("Key"),
        max_length=MAX_KEY,
        help_text=gettext_lazy("Your own id for this item. It cannot be changed later."),
    )
    field_order = ["key", "text", "group"]

    def clean_key(self) -> str:
        key: str = self.cleaned_data["key"]
        if not key.isprintable():
            raise ValidationError(_("A key cannot hold invisible characters or line breaks."))
        return key


class FilterForm(forms.Form):
    """What the list shows. Whatever is not understood is left out, not refused."""

    q = forms.CharField(label=gettext_lazy("Search"), required=False, max_length=200)
    group = forms.ChoiceField(label=gettext_lazy("Group"), required=False)
    state = forms.ChoiceField(
        label=gettext_lazy("State"),
        required=False,
        choices=[("", gettext_lazy("on and off")), ("on", gettext_lazy("on")), ("off", gettext_lazy("off"))],
    )

    def __init__(self, project: Project, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        groups = Item.objects.filter(project=project).exclude(group="").order_by("group")
        names = groups.values_list("group", flat=True).distinct()
        self.fields["group"].choices = [("", _("all groups")), *((name, name) for name in names)]  # type: ignore[attr-defined]
