"""The forms in which workers answer the questionnaire, before the first pair and after the last one."""

from collections.abc import Iterable, Iterator
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from annotation.forms.judging import validate_encodable
from annotation.models import Project
from annotation.models.questions import AFTER, BEFORE, Question, QuestionKind

MAX_SHORT_ANSWER = 200
MAX_TEXT_ANSWER = 5000
MAX_NUMBER = 1_000_000_000_000
NO_ANSWER = _("I'd rather not say")


class QuestionnaireForm(forms.Form):
    """The questions of one part of the questionnaire. Simulated workers need not answer."""

    def __init__(self, project: Project, when: str, *args: Any, answers_needed: bool = True, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        questions = [Question.from_json(stored) for stored in project.questionnaire]
        self.questions = {f"q_{question.name}": question for question in questions if question.when == when}
        for name, question in self.questions.items():
            self.fields[name] = _question_field(question, question.required and answers_needed)

    def fields_with_questions(self) -> list[tuple[forms.BoundField, Question]]:
        """The fields with their questions, for the page."""
        return [(self[name], question) for name, question in self.questions.items()]

    def traits(self) -> dict[str, Any]:
        """The answers that the model may use, keyed by question name."""
        return {question.name: answer for question, answer in self._answered() if question.is_trait}

    def answers(self) -> dict[str, Any]:
        """All other answers: free text, and everything asked after the task."""
        return {question.name: answer for question, answer in self._answered() if not question.is_trait}

    def _answered(self) -> Iterator[tuple[Question, Any]]:
        for name, question in self.questions.items():
            if (answer := self.cleaned_data[name]) not in (None, "", []):
                yield question, answer


class JoinForm(QuestionnaireForm):
    """Questions and consent, shown before the first pair. Without a consent text there is no checkbox."""

    consent = forms.BooleanField(
        label=_("I have read this and want to take part."),
        error_messages={"required": _("Please tick the box to take part.")},
    )
    arrival = forms.CharField(required=False, widget=forms.HiddenInput)  # the signed identity from a platform

    def __init__(self, project: Project, *args: Any, **kwargs: Any) -> None:
        super().__init__(project, BEFORE, *args, **kwargs)
        if not project.consent.strip():
            del self.fields["consent"]
        self.order_fields([*self.questions, "consent"])


class ClosingForm(QuestionnaireForm):
    """The questions after the last pair."""

    def __init__(self, project: Project, *args: Any, **kwargs: Any) -> None:
        super().__init__(project, AFTER, *args, **kwargs)

    @property
    def may_be_skipped(self) -> bool:
        return not any(question.required for question in self.questions.values())


class NumberField(forms.FloatField):
    """A finite number; whole numbers stay whole."""

    widget = forms.NumberInput(attrs={"step": "any", "inputmode": "decimal"})

    def clean(self, value: Any) -> Any:
        number = super().clean(value)
        return int(number) if number is not None and number == int(number) else number


def _question_field(question: Question, required: bool) -> forms.Field:
    shown: dict[str, Any] = {"label": question.label, "required": required}
    match question.kind:
        case QuestionKind.CHOICE:
            empty = ("", _("Please choose") if required else NO_ANSWER)
            return forms.ChoiceField(choices=[empty, *_options(question.choices)], **shown)
        case QuestionKind.SEVERAL:
            boxes = forms.CheckboxSelectMultiple
            return forms.MultipleChoiceField(choices=_options(question.choices), widget=boxes, **shown)
        case QuestionKind.NUMBER:
            low = -MAX_NUMBER if question.min is None else question.min
            return NumberField(min_value=low, max_value=MAX_NUMBER if question.max is None else question.max, **shown)
        case QuestionKind.SCALE:
            numbers = _options(range(int(question.min or 0), int(question.max or 0) + 1))
            options = numbers if required else [*numbers, ("", NO_ANSWER)]
            radios = forms.RadioSelect
            return forms.TypedChoiceField(choices=options, coerce=int, empty_value=None, widget=radios, **shown)
        case QuestionKind.TEXT:
            box = forms.Textarea(attrs={"rows": 3})
            return forms.CharField(max_length=MAX_TEXT_ANSWER, validators=[validate_encodable], widget=box, **shown)
    return forms.CharField(max_length=MAX_SHORT_ANSWER, **shown)


def _options(values: Iterable[Any]) -> list[tuple[str, Any]]:
    return [(str(value), str(value)) for value in values]
