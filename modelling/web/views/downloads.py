"""Tables of dashboard pages as CSV files, for analysts."""

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

from django.http import Http404, HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from annotation.http.access import Role, View, members_only
from annotation.http.downloads import attachment
from annotation.models import Item, Project, User
from annotation.views import ResearcherRequest
from modelling.dashboards import item as item_facts
from modelling.dashboards.common.query import get_worker_or_404
from modelling.dashboards.workers import listing as workers_facts
from modelling.dashboards.workers import personal_scores
from modelling.dashboards.workers import worker as worker_facts
from modelling.exports.formats import CONTENT_TYPES
from modelling.exports.points import ExportError
from modelling.exports.service import ExportRequest, export_page_table
from modelling.models import ModelSnapshot
from modelling.training.components import axes as component_table
from modelling.training.storage.array_store import DamagedArrays
from modelling.training.versions import shown_snapshot
from modelling.web.views.exports import download

Rows = Iterable[list[Any]]


def csv_download(
    project: Project, user: User, action: str, name: str, columns: list[str], rows: Rows, details: dict[str, Any]
) -> HttpResponse:
    content = export_page_table(project, user, action=action, columns=columns, rows=rows, details=details)
    return attachment(f"{name}.csv", content, CONTENT_TYPES["csv"])


def table(what: str) -> Callable[[Callable[..., tuple[list[str], Rows]]], View]:
    """Turn a function that returns columns and rows of the shown version into a view; 404 if there is no version."""

    def decorate(facts: Callable[..., tuple[list[str], Rows]]) -> View:
        @wraps(facts)
        @require_safe
        @members_only(Role.ANALYST)
        def view(request: ResearcherRequest, project: Project, **which: Any) -> HttpResponse:
            snapshot = shown_snapshot(project)
            if snapshot is None:
                raise Http404(_("There is no version of the model yet."))
            details = {"version": snapshot.number, **{name: str(value) for name, value in which.items()}}
            name = f"{project.slug}-{what}-v{snapshot.number}"
            try:
                columns, rows = facts(snapshot, **which)
                return csv_download(project, request.user, f"exported {what}", name, columns, rows, details)
            except DamagedArrays as error:
                raise Http404(str(error.message)) from None

        return view

    return decorate


@require_safe
@members_only(Role.ANALYST)
def ranking(request: ResearcherRequest, project: Project) -> HttpResponseBase:
    """Download the shown ranking."""
    try:
        export = ExportRequest(project, request.user, "ranking", "csv")
        return download(export.stream(count=False, action="exported the ranking"))
    except ExportError as error:
        raise Http404(str(error)) from None


@table("components")
def components(snapshot: ModelSnapshot) -> tuple[list[str], Rows]:
    return component_table.COLUMNS, component_table.component_rows(snapshot)


@table("workers")
def workers(snapshot: ModelSnapshot) -> tuple[list[str], Rows]:
    return workers_facts.COLUMNS, workers_facts.export_rows(snapshot)


@table("preferences")
def preferences(snapshot: ModelSnapshot, code: str) -> tuple[list[str], Rows]:
    found = personal_scores.preference_table(snapshot, get_worker_or_404(snapshot.project, code))
    if found is None:
        raise Http404(_("The model has not learned from this worker yet."))
    return found.columns, found.rows


@table("worker-judgements")
def worker_judgements(snapshot: ModelSnapshot, code: str) -> tuple[list[str], Rows]:
    return worker_facts.COLUMNS, worker_facts.judgement_rows(snapshot, get_worker_or_404(snapshot.project, code))


@table("item-judgements")
def item_judgements(snapshot: ModelSnapshot, pk: int) -> tuple[list[str], Rows]:
    item = get_object_or_404(Item, project=snapshot.project_id, pk=pk)
    return item_facts.JUDGEMENT_COLUMNS, item_facts.judgement_rows(snapshot, item)
