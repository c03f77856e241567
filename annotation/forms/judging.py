"""What a worker may say about a pair."""

import uuid
from collections.abc import Mapping
from typing import Any

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


class Milliseconds(forms.FloatField):
    """A whole number that a column can hold; the service clips it to the lease."""

    def clean(self, value: object) -> int | None:
        if isinstance(value, bool):
            raise ValidationError(_("Enter a number."))
        number = super().clean(value)
        return None if number is None else int(min(max(number, -1), 2_000_000_000))


class WrongField(Exception):
    """Which field cannot be taken, why, and whether it was simply not there."""

    def __init__(self, field: str, words: str, *, missing: bool) -> None:
        super().__init__(field)
        self.field, self.words, self.missing = field, words, missing


# What a browser may say. Anything else is ignored: it cannot set who judged, when, or with what weight.
Fields = Mapping[str, forms.Field]
JUDGEMENT: Fields = {
    "uuid": forms.UUIDField(validators=[not_nil]),
    "assignment": forms.UUIDField(),
    "choice": forms.ChoiceField(choices=CHOICES),
    "skip_reason": forms.ChoiceField(choices=Judgement.SkipReason.choices, required=False),
    "response_ms": Milliseconds(required=False),
    "note": Words(required=False, max_length=NOTE_LENGTH, validators=[storable]),
}
# Which judgement is taken back, and the id that makes sending it twice harmless.
RETRACTION: Fields = {"uuid": forms.UUIDField(validators=[not_nil]), "judgement": forms.UUIDField()}


def checked(fields: Fields, payload: Mapping[str, Any]) -> dict[str, Any]:
    """What the payload says in these fields. A Form would copy them all first, and take five times as long."""
    values = {}
    for name, field in fields.items():
        try:
            values[name] = field.clean(payload.get(name))
        except ValidationError as error:
            raise WrongField(name, error.messages[0], missing=not payload.get(name)) from None
    return values
