"""The tables of pages as files, for analysts. Each names its version, and the audit says who took it."""

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from annotation.access import Role, View, members_only
from annotation.models import Item, Project
from annotation.services import audit
from annotation.views import ResearcherRequest
from modelling.arrays import Damaged
from modelling.dashboards import components as components_facts
from modelling.dashboards import item as item_facts
from modelling.dashboards import personal_scores, surprises
from modelling.dashboards import workers as workers_facts
from modelling.dashboards.addresses import worker_at
from modelling.exporting import responses
from modelling.models import ModelSnapshot
from modelling.versions import shown_snapshot

Rows = Iterable[list[Any]]


def table(what: str) -> Callable[[Callable[..., tuple[list[str], Rows]]], View]:
    """A file of the shown version; 404 where there is none, or nothing is left of it but the scores."""

    def decorate(facts: Callable[..., tuple[list[str], Rows]]) -> View:
        @wraps(facts)
        @require_safe
        @members_only(Role.ANALYST)
        def view(request: ResearcherRequest, project: Project, **which: Any) -> HttpResponse:
            snapshot = shown_snapshot(project)
            if snapshot is None:
                raise Http404(_("There is no version of the model yet."))
            try:
                columns, rows = facts(snapshot, **which)
                file = responses.table_csv(f"{project.slug}-{what}-v{snapshot.number}", columns, rows)
            except Damaged:
                raise Http404(_("What lies behind this version cannot be read just now.")) from None
            told = {"version": snapshot.number, **{name: str(value) for name, value in which.items()}}
            audit(project, request.user, f"exported {what}", told)
            return responses.csv_response(file)

        return view

    return decorate


@table("components")
def components(snapshot: ModelSnapshot) -> tuple[list[str], Rows]:
    return components_facts.COLUMNS, components_facts.component_rows(snapshot)


@table("workers")
def workers(snapshot: ModelSnapshot) -> tuple[list[str], Rows]:
    return workers_facts.COLUMNS, workers_facts.worker_rows(snapshot)


@table("preferences")
def preferences(snapshot: ModelSnapshot, code: str) -> tuple[list[str], Rows]:
    found = personal_scores.preference_table(snapshot, worker_at(snapshot.project, code))
    if found is None:
        raise Http404(_("The model has not learned from this worker yet."))
    return found.columns, found.rows


@table("worker-judgements")
def worker_judgements(snapshot: ModelSnapshot, code: str) -> tuple[list[str], Rows]:
    return surprises.COLUMNS, surprises.answer_rows(snapshot, worker_at(snapshot.project, code))


@table("item-judgements")
def item_judgements(snapshot: ModelSnapshot, pk: int) -> tuple[list[str], Rows]:
    item = get_object_or_404(Item, project=snapshot.project_id, pk=pk)
    return item_facts.ANSWER_COLUMNS, item_facts.answer_rows(snapshot, item)
