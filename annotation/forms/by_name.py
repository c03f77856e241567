"""A project's settings by their names, as a command line gives them; what the browser's form refuses is refused."""

from copy import copy
from typing import Any

from django import forms
from django.forms.models import model_to_dict

from annotation.forms.projects import ProjectForm
from annotation.forms.questionnaire import as_text
from annotation.models import Project

WORDS = {"yes": True, "true": True, "on": True, "1": True, "no": False, "false": False, "off": False, "0": False}
NAMES = tuple(name for name in ProjectForm.base_fields if name not in ("slug", "title"))


class Unusable(ValueError):
    """A setting has no such name or may not have this value; the message says which, and what it may have."""


def settings_by_name(project: Project) -> dict[str, Any]:
    """Every setting of the form with the value it has."""
    return {name: getattr(project, name) for name in NAMES}


def checked_settings(project: Project, given: dict[str, str]) -> dict[str, Any]:
    """What the form makes of the project with these settings in place of its own; Unusable where it refuses them."""
    form = ProjectForm(instance=copy(project))
    as_typed = {**model_to_dict(project, fields=form.fields), "questionnaire": as_text(project.questionnaire)}
    typed = {name: _typed(form, name, text) for name, text in given.items()}
    form = ProjectForm({**as_typed, **typed}, instance=copy(project))
    if form.errors:
        raise Unusable(" ".join(f"{name}: {' '.join(map(str, errors))}" for name, errors in form.errors.items()))
    return {name: form.cleaned_data[name] for name in given}


def _typed(form: ProjectForm, name: str, text: str) -> Any:
    if name not in form.fields:
        raise Unusable(f"There is no setting called {name}. There are: {', '.join(NAMES)}.")
    if not isinstance(form.fields[name], forms.BooleanField):
        return text
    if text.lower() not in WORDS:
        raise Unusable(f"{name}: write yes or no.")
    return WORDS[text.lower()]
