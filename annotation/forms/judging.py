"""What a worker may say about a pair."""

import uuid

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext_lazy as _

from annotation.models import Judgement

CHOICES = [("left", _("left")), ("right", _("right")), ("tie", _("equally good")), ("skip", _("can't decide"))]
NOTE_LENGTH = 2000


def not_nil(value: uuid.UUID) -> None:
    if value.int == 0:
        raise ValidationError(_("This id is empty."))


def storable(value: str) -> None:
    """Refuses what a database cannot keep: half of a surrogate pair."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValidationError(_("The text holds a broken character.")) from None


class Words(forms.CharField):
    """A text, and nothing that could be turned into one."""

    def to_python(self, value: object) -> str:
        if value is not None and not isinstance(value, str):
            raise ValidationError(_("This must be a text."))
        return super().to_python(value) or ""


class JudgementForm(forms.Form):
    """Unknown fields are ignored: a browser cannot set who judged, when, or with what weight."""

    uuid = forms.UUIDField(validators=[not_nil])
    assignment = forms.UUIDField()
    choice = forms.ChoiceField(choices=CHOICES)
    skip_reason = forms.ChoiceField(choices=Judgement.SkipReason.choices, required=False)
    response_ms = forms.FloatField(required=False)
    note = Words(required=False, max_length=NOTE_LENGTH, validators=[storable])

    def clean_response_ms(self) -> int | None:
        """A whole number that a column can hold; the service clips it to the lease."""
        value = self.cleaned_data["response_ms"]
        return None if value is None else int(min(max(value, -1), 2_000_000_000))


class RetractionForm(forms.Form):
    """Which judgement is taken back, and the id that makes sending it twice harmless."""

    uuid = forms.UUIDField(validators=[not_nil])
    judgement = forms.UUIDField()
