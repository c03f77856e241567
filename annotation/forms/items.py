"""Forms for single items and for filtering the list of items."""

from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from annotation.models import Item, Project
from annotation.models.items import MAX_TEXT
from annotation.services.items import MAX_GROUP, MAX_KEY, normalise_newlines


class ItemTextField(forms.CharField):
    """Text with normalised line ends; surrounding spaces are kept."""

    widget = forms.Textarea(attrs={"rows": 8})

    def to_python(self, value: Any) -> str:
        return normalise_newlines(super().to_python(value) or "")

    def validate(self, value: str) -> None:
        super().validate(value.strip())


class ItemCorrectionForm(forms.Form):
    text = ItemTextField(label=gettext_lazy("Text"), max_length=MAX_TEXT, strip=False)
    group = forms.CharField(
        label=gettext_lazy("Group"),
        max_length=MAX_GROUP,
        required=False,
        help_text=gettext_lazy("For example topic and stance."),
    )


class ItemCreateForm(ItemCorrectionForm):
    key = forms.CharField(
        label=gettext_lazy("Key"),
        max_length=MAX_KEY,
        help_text=gettext_lazy("Your ID for this item. It cannot be changed later."),
    )
    field_order = ["key", "text", "group"]

    def clean_key(self) -> str:
        key: str = self.cleaned_data["key"]
        if not key.isprintable():
            raise ValidationError(_("A key cannot contain invisible characters or line breaks."))
        return key


class ItemFilterForm(forms.Form):
    """Filters for the item list; invalid values are ignored."""

    q = forms.CharField(required=False, max_length=200)
    group = forms.ChoiceField(required=False)
    state = forms.ChoiceField(
        required=False, choices=[("on", gettext_lazy("active")), ("off", gettext_lazy("inactive"))]
    )

    def __init__(self, project: Project, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        groups = Item.objects.filter(project=project).exclude(group="").order_by("group")
        names = groups.values_list("group", flat=True).distinct()
        self.fields["group"].choices = [(name, name) for name in names]  # type: ignore[attr-defined]
