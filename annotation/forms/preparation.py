"""Practice pairs, the comprehension check and gold pairs: what owners write, and what workers answer."""

from collections.abc import Iterator
from typing import Any

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from annotation.forms.projects import FieldGroup
from annotation.models import Preparation, Project

MAX_PRACTICE = 3
MAX_QUESTIONS = 3
MAX_TEXT = 5000
SIDES = [("left", gettext_lazy("First")), ("right", gettext_lazy("Second"))]
RIGHT_MARK = "*"
MAX_PAIRS = 10
EMPTY_ROWS = 2
FEWEST_WRONG = 2  # one wrong answer may be a slip; platforms require at least two failures too
RULE = ("gold_checks", "gold_limit", "gold_consequence")


class PreparationForm(forms.Form):
    """Up to three practice pairs and up to three questions; empty ones are left out."""

    def __init__(self, preparation: Preparation, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for number in range(MAX_PRACTICE):
            pair = dict(enumerate(preparation.practice)).get(number, {})
            self._add_text(f"first_{number}", gettext_lazy("first text"), pair.get("first", ""))
            self._add_text(f"second_{number}", gettext_lazy("second text"), pair.get("second", ""))
            self.fields[f"answer_{number}"] = forms.ChoiceField(
                label=gettext_lazy("expected answer"), choices=SIDES, initial=pair.get("answer", "left"), required=False
            )
            self._add_text(
                f"explanation_{number}", gettext_lazy("feedback after the answer"), pair.get("explanation", "")
            )
        for number in range(MAX_QUESTIONS):
            question = dict(enumerate(preparation.comprehension)).get(number, {})
            self._add_text(f"question_{number}", gettext_lazy("question"), question.get("question", ""))
            help_text = gettext_lazy(
                "One per line. Start the correct one with an asterisk, for example: *It is my own view."
            )
            self._add_text(f"choices_{number}", gettext_lazy("choices"), _format_choices(question), help_text)

    def _add_text(self, name: str, label: Any, initial: str, help_text: Any = "") -> None:
        widget = forms.Textarea(attrs={"rows": 2})
        self.fields[name] = forms.CharField(
            label=label, initial=initial, required=False, max_length=MAX_TEXT, widget=widget, help_text=help_text
        )

    def groups(self) -> Iterator[FieldGroup]:
        for number in range(MAX_PRACTICE):
            names = [f"{name}_{number}" for name in ("first", "second", "answer", "explanation")]
            yield FieldGroup(_("Practice pair %(number)d") % {"number": number + 1}, [self[name] for name in names])
        for number in range(MAX_QUESTIONS):
            names = [f"question_{number}", f"choices_{number}"]
            yield FieldGroup(_("Question %(number)d") % {"number": number + 1}, [self[name] for name in names])

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        practice = [self._clean_pair(cleaned, number) for number in range(MAX_PRACTICE)]
        comprehension = [self._clean_question(cleaned, number) for number in range(MAX_QUESTIONS)]
        return {"practice": [*filter(None, practice)], "comprehension": [*filter(None, comprehension)]}

    def _clean_pair(self, cleaned: dict[str, Any], number: int) -> dict[str, str] | None:
        pair = {name: cleaned.get(f"{name}_{number}", "") for name in ("first", "second", "answer", "explanation")}
        if not (pair["first"] or pair["second"]):
            return None
        for name in ("first", "second", "explanation"):
            if not pair[name]:
                self.add_error(f"{name}_{number}", _("A practice pair needs two texts and feedback."))
        return pair

    def _clean_question(self, cleaned: dict[str, Any], number: int) -> dict[str, Any] | None:
        question = cleaned.get(f"question_{number}", "")
        lines = [*filter(None, map(str.strip, cleaned.get(f"choices_{number}", "").splitlines()))]
        if not (question or lines):
            return None
        marked = [place for place, line in enumerate(lines) if line.startswith(RIGHT_MARK)]
        choices = [line.removeprefix(RIGHT_MARK).strip() for line in lines]
        if not question or len(marked) != 1 or len(set(choices)) < max(2, len(choices)):
            self.add_error(f"choices_{number}", _("Write a question and at least two choices; mark one as right."))
            return None
        return {"question": question, "choices": choices, "answer": marked[0]}


def _format_choices(question: dict[str, Any]) -> str:
    choices = enumerate(question.get("choices", []))
    return "\n".join(f"{RIGHT_MARK if place == question['answer'] else ''}{choice}" for place, choice in choices)


class ComprehensionForm(forms.Form):
    """The questions of the comprehension check, and which attempt this is, so that a double click is one attempt."""

    attempt = forms.IntegerField(min_value=0, widget=forms.HiddenInput)

    def __init__(self, preparation: Preparation, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for number, question in enumerate(preparation.comprehension):
            self.fields[f"answer_{number}"] = forms.TypedChoiceField(
                label=question["question"],
                choices=list(enumerate(question["choices"])),
                coerce=int,
                widget=forms.RadioSelect,
            )

    def answers(self) -> list[int]:
        return [self.cleaned_data[field.name] for field in self.visible_fields()]


class PracticeForm(forms.Form):
    """The answer to one practice pair."""

    number = forms.IntegerField(min_value=0)
    choice = forms.ChoiceField(choices=SIDES, required=False)


class GoldForm(forms.Form):
    """The stored gold pairs and a few empty ones; pass `cleaned_data` to `change_gold`."""

    use_required_attribute = False
    gold_checks = forms.IntegerField(
        label=gettext_lazy("gold pairs per worker"),
        min_value=0,
        max_value=MAX_PAIRS,
        required=False,
        help_text=gettext_lazy(
            "Each worker gets this many of the pairs below, spread over the task. Leave it empty for all."
        ),
    )
    gold_limit = forms.IntegerField(
        label=gettext_lazy("number of wrong answers that triggers the rule"),
        min_value=1,
        max_value=MAX_PAIRS,
        required=False,
        help_text=gettext_lazy("Any answer other than the better text is wrong."),
    )
    gold_consequence = forms.ChoiceField(
        label=gettext_lazy("consequence"),
        choices=Preparation.Consequence.choices,
        help_text=gettext_lazy("Neither option rejects anyone: the answer to a pair is an opinion."),
    )

    def __init__(self, project: Project, preparation: Preparation, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.initial = {
            "gold_checks": project.gold_checks or None,
            "gold_limit": preparation.gold_limit or None,
            "gold_consequence": preparation.gold_consequence,
        }
        self.n_rows = min(len(preparation.gold) + EMPTY_ROWS, MAX_PAIRS)
        for number in range(self.n_rows):
            pair = dict(enumerate(preparation.gold)).get(number, {})
            for name, label in (("better", gettext_lazy("better text")), ("worse", gettext_lazy("worse text"))):
                self.fields[f"{name}_{number}"] = forms.CharField(
                    label=label,
                    initial=pair.get(name, ""),
                    required=False,
                    max_length=MAX_TEXT,
                    widget=forms.Textarea(attrs={"rows": 2}),
                )

    def groups(self) -> Iterator[FieldGroup]:
        yield FieldGroup(_("Rule"), [self[name] for name in RULE])
        for number in range(self.n_rows):
            fields = [self[f"{name}_{number}"] for name in ("better", "worse")]
            yield FieldGroup(_("Gold pair %(number)d") % {"number": number + 1}, fields)

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        gold = [*filter(None, (self._clean_pair(cleaned, number) for number in range(self.n_rows)))]
        per_worker = cleaned.get("gold_checks") or len(gold)
        limit = (cleaned.get("gold_limit") or 0) if gold else 0
        consequence = cleaned.get("gold_consequence", "")
        if per_worker > len(gold):
            self.add_error("gold_checks", _("There are %(n)d gold pairs.") % {"n": len(gold)})
        elif gold and not 1 <= limit <= per_worker:
            self.add_error("gold_limit", _("Choose a number from 1 to the number of gold pairs per worker."))
        elif gold and consequence == Preparation.Consequence.FAILED_CHECKS and limit < FEWEST_WRONG:
            self.add_error("gold_limit", _("At least two answers must be wrong before a participation ends this way."))
        rule = {"gold_checks": per_worker if gold else 0, "gold_limit": limit, "gold_consequence": consequence}
        return {"gold": gold, **rule}

    def _clean_pair(self, cleaned: dict[str, Any], number: int) -> dict[str, str] | None:
        pair = {name: cleaned.get(f"{name}_{number}", "").replace("\r\n", "\n") for name in ("better", "worse")}
        if not any(pair.values()):
            return None
        for name, text in pair.items():
            if not text:
                self.add_error(f"{name}_{number}", _("A gold pair needs two texts."))
        return pair
