"""The study passport: the plan before the first answer, and what changed since."""

import json
from typing import Any, cast

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db.models import Field, Model
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods

from annotation.forms.preparation import SIDES
from annotation.forms.question_builder import TIMES, QuestionForm
from annotation.http.access import Role, has_role, members_only
from annotation.models import Arm, Preparation, Project, StudyPassport
from annotation.models.arms import OVERRIDES
from annotation.models.questions import QuestionKind
from annotation.services.participation.passport import (
    ITEM_CHANGES,
    PREPARATION,
    RULES,
    changed_items,
    get_passport,
    has_answers,
    is_intact,
    list_changes,
    plan_of,
)
from annotation.services.participation.recruitment import change_rules
from annotation.views import ResearcherRequest
from annotation.views.projects.history import describe_action, describe_details

CHOICES = {
    "pairs": Project.Pairs.choices,
    "suggestions": Project.Suggestions.choices,
    "gold_consequence": Preparation.Consequence.choices,
}
# Labels of the parts of an entry, and of the values that are stored as words; arms have those of their fields.
PARTS: dict[str, dict[str, Any]] = {
    "practice": {
        "first": gettext_lazy("first text"),
        "second": gettext_lazy("second text"),
        "answer": gettext_lazy("expected answer"),
        "explanation": gettext_lazy("feedback after the answer"),
    },
    "comprehension": {
        "question": gettext_lazy("question"),
        "answer": gettext_lazy("expected answer"),
        "choices": gettext_lazy("choices"),
    },
    "gold": {"better": gettext_lazy("better text"), "worse": gettext_lazy("worse text")},
    "questionnaire": {name: field.label for name, field in QuestionForm.base_fields.items()}
    | {"name": gettext_lazy("column in exports"), "label": gettext_lazy("question")},
    "arms": {name: cast(Field, Arm._meta.get_field(name)).verbose_name for name in ("name", *OVERRIDES)},
}
WORDS: dict[str, dict[str, Any]] = {
    "practice": {"answer": dict(SIDES)},
    "questionnaire": {"kind": dict(QuestionKind.choices), "when": dict(TIMES)},
    "arms": {"pairs": dict(Project.Pairs.choices)},
}


class RulesForm(forms.ModelForm):
    """The rules that the researcher writes down."""

    class Meta:
        model = StudyPassport
        fields = RULES
        widgets = {name: forms.Textarea(attrs={"rows": 4}) for name in RULES}


def describe_plan(plan: dict[str, Any]) -> list[tuple[str, str]]:
    """The entries of a plan with the labels of the settings pages."""
    return [(field_label(name), format_value(name, value)) for name, value in plan.items()]


def field_label(name: str) -> str:
    labels = {
        "arms": _("arms"),
        "simulation": _("simulation of the study"),
        "practice": _("practice pairs"),
        "comprehension": _("comprehension check"),
        "items": _("items"),
        "n_items": _("active items"),
        "items_sha256": _("SHA-256 of the items"),
    }
    if name in labels:
        return capfirst(labels[name])
    models: dict[str, type[Model]] = dict.fromkeys(RULES, StudyPassport) | dict.fromkeys(PREPARATION, Preparation)
    model = models.get(name, Project)
    return capfirst(str(cast(Field, model._meta.get_field(name)).verbose_name))


def format_value(name: str, value: Any) -> str:
    if name in CHOICES:
        return str(dict(CHOICES[name]).get(value, value))
    if name == ITEM_CHANGES and value:
        done = describe_details(value["action"], {part: value[part] for part in value if part != "action"})
        return "\n".join([capfirst(describe_action(value["action"])), *done])
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    if name == "comprehension":  # the answer is stored as the number of the choice, counted from 0
        value = [{**asked, "answer": asked["choices"][asked["answer"]]} for asked in value]
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "\n".join(_format_row(name, row) for row in value)
    if name == "simulation" and value:
        return "\n".join(f"{key}: {_format_part(part)}" for key, part in value.items())
    if isinstance(value, (list, dict)):
        return json.dumps(value, ensure_ascii=False) if value else "–"
    return "–" if value in (None, "") else str(value)


def _format_row(name: str, row: dict[str, Any]) -> str:
    """The parts of one practice pair, question, gold pair or arm, with their labels."""
    labels, words = PARTS.get(name, {}), WORDS.get(name, {})
    parts = {key: words.get(key, {}).get(part, part) if isinstance(part, str) else part for key, part in row.items()}
    return "; ".join(f"{labels.get(key, key)}: {_format_part(part)}" for key, part in parts.items())


def _format_part(value: Any) -> str:
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    if isinstance(value, dict):
        return "; ".join(f"{key} {_format_part(part)}" for key, part in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


@require_http_methods(["GET", "HEAD", "POST"])
@members_only(Role.VIEWER)
def show(request: ResearcherRequest, project: Project) -> HttpResponse:
    """Show the passport; owners can change its rules."""
    is_owner = has_role(request.role, Role.OWNER)
    if request.method == "POST" and not is_owner:
        raise PermissionDenied
    passport = get_passport(project)
    form = RulesForm(request.POST if request.method == "POST" else None, instance=get_passport(project))
    if form.is_valid():
        change_rules(project=project, user=request.user, changes=form.cleaned_data)
        messages.success(request, _("Saved."))
        return redirect("annotation:passport", project.slug)
    frozen_at = passport.frozen_at.isoformat() if passport.frozen_at else ""
    plan = passport.content if passport.frozen_at else plan_of(project)
    context = {
        "project": project,
        "passport": passport,
        "has_answers": has_answers(project),
        "form": form if is_owner else None,
        "plan": describe_plan(plan),
        "intact": is_intact(passport.content, frozen_at, passport.digest),
        "changes": [
            (
                change,
                field_label(change.name),
                format_value(change.name, change.old),
                format_value(change.name, change.new),
            )
            for change in list_changes(passport)
        ],
        "items_changed": bool(passport.frozen_at) and changed_items(passport),
    }
    return render(request, "annotation/recruitment/passport.html", context, status=422 if form.is_bound else 200)
