"""The questions a worker answers before the first pair: consent, and the project's own questionnaire."""

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from annotation.models import Project

FREE_TEXT_LENGTH = 200


class JoinForm(forms.Form):
    consent = forms.BooleanField(label=_("I have read this and want to take part."))

    def __init__(self, project: Project, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.questions = {f"q_{question['name']}": question for question in project.questionnaire}
        for name, question in self.questions.items():
            self.fields[name] = _field_for(question)
        self.order_fields([*self.questions, "consent"])

    def traits(self) -> dict[str, str]:
        """The answers by the question's own name; unanswered ones are left out."""
        answers = {question["name"]: self.cleaned_data[name] for name, question in self.questions.items()}
        return {name: answer for name, answer in answers.items() if answer}


def _field_for(question: dict[str, Any]) -> forms.Field:
    if choices := question.get("choices"):
        options = [("", _("I'd rather not say")), *((choice, choice) for choice in choices)]
        return forms.ChoiceField(label=question["label"], choices=options, required=False)
    return forms.CharField(label=question["label"], max_length=FREE_TEXT_LENGTH, required=False)
