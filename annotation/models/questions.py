"""The questions of a study's questionnaire, as stored in `Project.questionnaire`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db import models
from django.utils.translation import gettext_lazy as _


class QuestionKind(models.TextChoices):
    CHOICE = "choice", _("one choice")
    SEVERAL = "several", _("several choices")
    NUMBER = "number", _("number")
    SCALE = "scale", _("scale")
    TEXT = "text", _("free text")
    SHORT = "short", _("short answer")  # stored by earlier releases


WITH_CHOICES = (QuestionKind.CHOICE, QuestionKind.SEVERAL)
WITH_LIMITS = (QuestionKind.NUMBER, QuestionKind.SCALE)
BEFORE, AFTER = "before", "after"


@dataclass(frozen=True)
class Question:
    """One question: asked before the first pair or after the last one."""

    name: str
    label: str
    kind: str
    choices: tuple[str, ...] = ()
    min: float | None = None
    max: float | None = None
    low: str = ""  # labels for the ends of a scale
    high: str = ""
    required: bool = False
    when: str = BEFORE

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "Question":
        """Read a stored question. Without a kind it is a choice, or a short answer if it has no choices."""
        implied = QuestionKind.CHOICE if stored.get("choices") else QuestionKind.SHORT
        fields = {"label": "", "kind": implied.value, **stored, "choices": tuple(stored.get("choices", ()))}
        return cls(**fields)

    def to_json(self) -> dict[str, Any]:
        """The JSON to store, without defaults and without fields that do not apply to the kind."""
        stored: dict[str, Any] = {"name": self.name, "label": self.label}
        if self.kind not in (QuestionKind.CHOICE, QuestionKind.SHORT):
            stored["kind"] = str(self.kind)
        if self.kind in WITH_CHOICES:
            stored["choices"] = list(self.choices)
        if self.kind in WITH_LIMITS:
            stored |= {name: value for name in ("min", "max") if (value := getattr(self, name)) is not None}
        if self.kind == QuestionKind.SCALE:
            stored |= {name: value for name in ("low", "high") if (value := getattr(self, name))}
        return stored | ({"required": True} if self.required else {}) | ({"when": AFTER} if self.when == AFTER else {})

    @property
    def is_trait(self) -> bool:
        """Whether the model may use the answer: not free text, and known before the first judgement."""
        return self.when == BEFORE and self.kind != QuestionKind.TEXT
