"""The form in which owners build the questionnaire: one sub-form per question, without scripts."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from django import forms
from django.utils.text import capfirst, slugify
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from annotation.forms.question_rules import MAX_QUESTIONS, find_problem, find_repeated
from annotation.forms.questionnaire import NumberField
from annotation.models.questions import AFTER, BEFORE, Question, QuestionKind

MAX_NAME = 40
MOVE = re.compile(r"(up|down|remove)-(\d{1,3})")
SHORT = QuestionKind.SHORT
DEFAULT_SCALE = {"min": 1, "max": 5}
TIMES = [(BEFORE, gettext_lazy("before the first pair")), (AFTER, gettext_lazy("after the last pair"))]

Row = dict[str, Any]  # the raw form data of one question


class QuestionForm(forms.Form):
    """One question, validated by the rules of the JSON form; each error message appears next to its field."""

    use_required_attribute = False
    label = forms.CharField(label=gettext_lazy("question"), required=False)
    kind = forms.ChoiceField(label=gettext_lazy("kind of answer"))
    choices = forms.CharField(
        label=gettext_lazy("choices"),
        required=False,
        widget=forms.Textarea(attrs={"rows": 4}),
        help_text=gettext_lazy("One per line."),
    )
    min = NumberField(label=gettext_lazy("smallest number"), required=False)
    max = NumberField(label=gettext_lazy("largest number"), required=False)
    low = forms.CharField(label=gettext_lazy("label of the smallest number"), required=False)
    high = forms.CharField(label=gettext_lazy("label of the largest number"), required=False)
    required = forms.BooleanField(label=gettext_lazy("workers have to answer"), required=False)
    when = forms.ChoiceField(label=gettext_lazy("when"), choices=TIMES)
    name = forms.CharField(
        label=gettext_lazy("column in exports"),
        required=False,
        widget=forms.TextInput(attrs={"maxlength": MAX_NAME, "autocapitalize": "none", "spellcheck": "false"}),
        help_text=gettext_lazy(
            "Generated from the question if left blank. Do not change it once workers have answered."
        ),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        kinds = [choice for choice in QuestionKind.choices if choice[0] != SHORT or self["kind"].value() == SHORT]
        self.fields["kind"].choices = kinds  # type: ignore[attr-defined]

    def clean(self) -> Row:
        """Store the question in its JSON form as `question`, unless a field is invalid."""
        cleaned = super().clean() or {}
        if self.errors:
            return cleaned
        if cleaned["kind"] == QuestionKind.SCALE and cleaned["min"] is None and cleaned["max"] is None:
            cleaned |= DEFAULT_SCALE
        choices = [line.strip() for line in cleaned["choices"].splitlines() if line.strip()]
        named = {**cleaned, "name": cleaned["name"] or "unnamed", "choices": tuple(choices)}
        question = Question(**named).to_json()
        if problem := find_problem(question):
            key, message = problem
            self.add_error(key if key in self.fields else None, capfirst(message))
        return {**cleaned, "question": question}


class QuestionFormSet(forms.BaseFormSet):
    """All questions in order."""

    def get_form_kwargs(self, index: int | None) -> dict[str, Any]:
        """Treat an empty question as an error instead of ignoring it."""
        return {**super().get_form_kwargs(index), "empty_permitted": False}

    def clean(self) -> None:
        """Fill in missing column names, and reject duplicates."""
        if any(self.errors):
            return
        used = [form.cleaned_data["name"] for form in self.forms if form.cleaned_data.get("name")]
        if repeated := find_repeated(used):
            self._reject_name(repeated)
            return
        for form in self.forms:
            if not form.cleaned_data["name"]:
                question = form.cleaned_data["question"]
                question["name"] = _free_name(question["label"], used)
                used.append(question["name"])

    def _reject_name(self, name: str) -> None:
        for form in self.forms:
            if form.cleaned_data.get("name") == name:
                form.add_error("name", _("Another question has the same name. Names must be unique."))

    def questions(self) -> list[dict[str, Any]]:
        """The questionnaire as it is stored."""
        return [form.cleaned_data["question"] for form in self.forms]

    def rows(self) -> list[Row]:
        """Everything typed so far, valid or not."""
        return [{name: form[name].value() for name in form.fields} for form in self.forms]


FORMSET_CLASS = forms.formset_factory(
    QuestionForm,
    formset=QuestionFormSet,
    extra=0,
    max_num=MAX_QUESTIONS,
    validate_max=True,
    absolute_max=MAX_QUESTIONS + 1,  # a forged form count must not slow the server down
)


def make_formset(data: Mapping[str, Any] | None = None, rows: Sequence[Row] = ()) -> QuestionFormSet:
    """Build the formset from posted data, or from these rows."""
    return cast(QuestionFormSet, FORMSET_CLASS(data, initial=rows))


def _free_name(label: str, used: Sequence[str]) -> str:
    """Generate an unused column name from the question."""
    base = slugify(label).replace("-", "_")[: MAX_NAME - 3].strip("_")
    if not base or not base[0].isalpha():
        base = f"question_{base}"[: MAX_NAME - 3].strip("_")
    names = [base, *(f"{base}_{number}" for number in range(2, MAX_QUESTIONS + 2))]
    return next(name for name in names if name not in used)


def stored_rows(questionnaire: Sequence[dict[str, Any]]) -> list[Row]:
    """The stored questions as initial rows for the form."""
    questions = [Question.from_json(stored) for stored in questionnaire]
    return [{**vars(question), "choices": "\n".join(question.choices)} for question in questions]


def change_rows(rows: list[Row], action: str) -> tuple[list[Row], int | None]:
    """Add, move or remove a question. Return the rows and the index of the question to continue with."""
    rows = list(rows)
    if action == "add":
        return [*rows, {"kind": QuestionKind.CHOICE, "when": BEFORE}], len(rows)
    match = MOVE.fullmatch(action)
    if not match or int(match[2]) >= len(rows):
        return rows, None
    index = int(match[2])
    row = rows.pop(index)
    if match[1] == "remove":
        return rows, min(index, len(rows) - 1)
    target = max(index - 1, 0) if match[1] == "up" else index + 1
    rows.insert(target, row)
    return rows, min(target, len(rows) - 1)
