"""Project settings that commands and the API pass by name, validated by the settings page's form."""

from copy import copy
from typing import Any

from django import forms
from django.forms.models import model_to_dict
from django.utils.translation import gettext_lazy

from annotation.forms.projects import ProjectForm
from annotation.forms.question_rules import format_questionnaire, parse_questionnaire
from annotation.models import Project

MAX_QUESTIONNAIRE = 50_000


class ProjectOptionsForm(ProjectForm):
    """The settings page's form plus the questionnaire as JSON, which has its own page in the browser."""

    questionnaire = forms.CharField(
        label=gettext_lazy("questions for workers"),
        required=False,
        max_length=MAX_QUESTIONNAIRE,
        help_text=Project._meta.get_field("questionnaire").help_text,
    )

    class Meta(ProjectForm.Meta):
        fields = [*ProjectForm.Meta.fields, "questionnaire"]

    def clean_questionnaire(self) -> list[dict[str, Any]]:
        return parse_questionnaire(self.cleaned_data["questionnaire"])


BOOLEANS = {"yes": True, "true": True, "on": True, "1": True, "no": False, "false": False, "off": False, "0": False}
NAMES = tuple(name for name in ProjectOptionsForm.base_fields if name not in ("slug", "title"))


class InvalidOption(ValueError):
    """An unknown setting or an invalid value; the message names the valid ones."""


def get_options(project: Project) -> dict[str, Any]:
    return {name: getattr(project, name) for name in NAMES}


def clean_options(project: Project, options: dict[str, str]) -> dict[str, Any]:
    """Validate these options together with the project's other settings and return their values."""
    form = ProjectOptionsForm(instance=copy(project))
    data = model_to_dict(project, fields=form.fields)
    data["questionnaire"] = format_questionnaire(project.questionnaire)
    data |= {name: _parse_option(form, name, text) for name, text in options.items()}
    form = ProjectOptionsForm(data, instance=copy(project))
    if form.errors:
        raise InvalidOption(" ".join(f"{name}: {' '.join(map(str, errors))}" for name, errors in form.errors.items()))
    return {name: form.cleaned_data[name] for name in options}


def _parse_option(form: ProjectOptionsForm, name: str, text: str) -> Any:
    if name not in form.fields:
        raise InvalidOption(f"There is no setting called {name}. Valid settings: {', '.join(NAMES)}.")
    if not isinstance(form.fields[name], forms.BooleanField):
        return text
    if text.lower() not in BOOLEANS:
        raise InvalidOption(f"{name}: write yes or no.")
    return BOOLEANS[text.lower()]
