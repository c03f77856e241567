"""The questionnaire builder."""

from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from annotation import services
from annotation.forms.question_builder import QuestionFormSet, change_rows, make_formset, stored_rows
from annotation.forms.question_rules import MAX_QUESTIONS
from annotation.http.access import Role, members_only
from annotation.models import Project
from annotation.views import ResearcherRequest


@require_http_methods(["GET", "HEAD", "POST"])
@members_only(Role.OWNER)
def edit(request: ResearcherRequest, project: Project) -> HttpResponse:
    """Save the questionnaire, or add, move and remove questions without saving: everything typed stays in the form."""
    if request.method != "POST":
        return _page(request, project, make_formset(rows=stored_rows(project.questionnaire)))
    formset = make_formset(request.POST)
    if action := request.POST.get("action"):
        rows, current = change_rows(formset.rows(), action)
        formset = make_formset(rows=rows)
        if current is not None and formset.forms:
            formset.forms[current].fields["label"].widget.attrs["autofocus"] = True
        return _page(request, project, formset, unsaved=True)
    if not formset.is_valid():
        return _page(request, project, formset, status=422)
    services.change_project(project=project, user=request.user, changes={"questionnaire": formset.questions()})
    messages.success(request, _("Saved."))
    return redirect("annotation:questions", project.slug)


def _page(
    request: ResearcherRequest, project: Project, formset: QuestionFormSet, status: int = 200, **more: Any
) -> HttpResponse:
    full = len(formset.forms) >= MAX_QUESTIONS
    context = {"project": project, "formset": formset, "full": full, "max_questions": MAX_QUESTIONS, **more}
    return render(request, "annotation/projects/questions.html", context, status=status)
