"""Import pages: upload a file, choose its columns' uses, preview the changes, confirm. Only the last step writes."""

from dataclasses import asdict
from functools import wraps
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.csrf import csrf_exempt, csrf_protect
from django.views.decorators.http import require_http_methods

from annotation.forms.imports import ColumnForm
from annotation.http.access import Role, View, members_only
from annotation.http.error_pages import error_response, too_many_requests, wants_json
from annotation.http.throttling import too_many_imports
from annotation.importing import pending_uploads
from annotation.importing.columns import ColumnMap, StudyNotChosen, count_studies, read_sample
from annotation.importing.file_formats.decoding import check_size
from annotation.importing.pending_uploads import UploadExpired
from annotation.importing.problems import FileTooLarge, ImportFileError
from annotation.models import Project
from annotation.views import ResearcherRequest
from annotation.views.imports.kinds import ITEMS, JUDGEMENTS, ImportKind

FORM_BYTES = 100_000  # allowance for the other fields of the upload form


def limit_upload_size(view: View) -> View:
    """Refuse an upload whose Content-Length is too large, before the body is parsed.

    The CSRF check parses the body, so it must run inside this decorator: hence csrf_exempt and csrf_protect below.
    """

    @wraps(view)
    def wrapper(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        announced = str(request.META.get("CONTENT_LENGTH", ""))
        try:
            check_size((int(announced) if announced.isdecimal() else 0) - FORM_BYTES)
        except FileTooLarge as error:
            return error_response(request, error.status, str(error.title), str(error.detail), "")
        return view(request, *args, **kwargs)

    return wrapper


@csrf_exempt
@limit_upload_size
@csrf_protect
@require_http_methods(["GET", "HEAD", "POST"])
@members_only(Role.ANALYST)
def import_items(request: ResearcherRequest, project: Project) -> HttpResponse:
    return _handle_import(request, project, ITEMS)


@csrf_exempt
@limit_upload_size
@csrf_protect
@require_http_methods(["GET", "HEAD", "POST"])
@members_only(Role.ANALYST)
def import_judgements(request: ResearcherRequest, project: Project) -> HttpResponse:
    return _handle_import(request, project, JUDGEMENTS)


def _handle_import(request: ResearcherRequest, project: Project, kind: ImportKind) -> HttpResponse:
    """Show the upload form, the columns with a preview, or problems; import after the confirmation."""
    pending_uploads.delete_expired()
    try:
        if "ticket" in request.POST:
            return _continue(request, project, kind)
        if request.method == "POST":
            if too_many_imports(request.user.pk):
                return too_many_requests(request, retry_seconds=600)
            return _upload(request, project, kind)
    except ImportFileError as error:
        return _error_page(request, project, kind, error)
    except FileNotFoundError:  # the same upload was imported by another request in the meantime
        return _error_page(request, project, kind, UploadExpired())
    return _page(request, project, kind)


def _upload(request: ResearcherRequest, project: Project, kind: ImportKind) -> HttpResponse:
    """Store an uploaded file and show its preview; delete the file if it cannot be read as a table."""
    upload = request.FILES.get("file")
    if upload is None:
        raise ImportFileError(_("No file was chosen."))
    check_size(upload.size or 0)
    name = pending_uploads.store_upload(upload)
    try:
        return _preview(request, project, kind, name)
    except ImportFileError:
        pending_uploads.delete_upload(name)
        raise


def _continue(request: ResearcherRequest, project: Project, kind: ImportKind) -> HttpResponse:
    """Import what was previewed, or show a new preview if the columns or the project have changed since."""
    ticket = pending_uploads.load_ticket(request.POST["ticket"], project=project, user=request.user, kind=kind.name)
    path, previewed = pending_uploads.upload_path(ticket["name"]), ColumnMap(**ticket["columns"])
    if "use_0" in request.POST:
        form = _column_form(request, kind, ticket["name"], previewed, request.POST)
        if not form.is_valid():
            return _columns_page(request, project, kind, ticket["name"], form, previewed, status=422)
        if form.columns() != previewed or "import" not in request.POST:
            return _preview(request, project, kind, ticket["name"], form.columns())
    rows = kind.read(path, previewed)
    if kind.plan(project, request.user, rows, previewed).basis != ticket["basis"]:
        return _preview(request, project, kind, ticket["name"], previewed, outdated=True)
    written = kind.write(project, request.user, rows, previewed)
    pending_uploads.delete_upload(ticket["name"])
    if not written.in_background:  # otherwise the study's page shows the progress
        messages.success(request, kind.describe_result(written.counts))
    elif previewed.split:
        messages.info(request, _("The judgements are being added. The page of each study shows the progress."))
    return redirect("annotation:projects") if previewed.split else redirect(kind.redirect_to, project.slug)


def _preview(
    request: ResearcherRequest,
    project: Project,
    kind: ImportKind,
    name: str,
    columns: ColumnMap | None = None,
    outdated: bool = False,
) -> HttpResponse:
    """Show how each column is used, and what the file will change or what is wrong with it."""
    path = pending_uploads.upload_path(name)
    sample = read_sample(path)
    columns = columns or kind.guess(sample)
    context: dict[str, Any] = {"outdated": outdated, "notes": sample.notes}
    status, basis = 200, ""
    try:
        rows = kind.read(path, columns)
        plan = kind.plan(project, request.user, rows, columns)
        context |= {"plan": plan, "total": len(rows), **kind.preview_context(plan, rows)}
        basis = plan.basis
    except StudyNotChosen:
        context["study_needed"] = True
    except ImportFileError as error:
        if error.status != ImportFileError.status or not sample.rows or wants_json(request):
            raise
        context["error"], status = error, error.status
    form = _column_form(request, kind, name, columns)
    return _columns_page(request, project, kind, name, form, columns, basis, status, **context)


def _column_form(
    request: ResearcherRequest, kind: ImportKind, name: str, columns: ColumnMap, data: Any = None
) -> ColumnForm:
    path = pending_uploads.upload_path(name)
    can_split = kind.can_split and request.role == Role.OWNER
    studies = count_studies(path, columns)
    return ColumnForm(read_sample(path), columns, kind.uses, kind.repeatable, studies, can_split, data)


def _columns_page(
    request: ResearcherRequest,
    project: Project,
    kind: ImportKind,
    name: str,
    form: ColumnForm,
    columns: ColumnMap,
    basis: str = "",
    status: int = 200,
    **context: Any,
) -> HttpResponse:
    ticket = pending_uploads.sign_ticket(
        name, project=project, user=request.user, kind=kind.name, basis=basis, columns=asdict(columns)
    )
    return _page(request, project, kind, status, form=form, ticket=ticket, **context)


def _page(request: HttpRequest, project: Project, kind: ImportKind, status: int = 200, **context: Any) -> HttpResponse:
    limits = {"max_mb": settings.IMPORT_MAX_BYTES // 1_000_000, "max_rows": settings.IMPORT_MAX_ROWS}
    template = f"annotation/imports/{kind.name}.html"
    return render(request, template, {"project": project, "title": kind.title, **limits, **context}, status=status)


def _error_page(request: HttpRequest, project: Project, kind: ImportKind, error: ImportFileError) -> HttpResponse:
    """Show the form with all problems; a script gets the same as problem+json."""
    if not wants_json(request):
        return _page(request, project, kind, status=error.status, error=error)
    body = {"type": "about:blank", "title": str(error.title), "status": error.status, "detail": str(error.detail)}
    problems = [{"line": p.line, "column": p.column, "message": p.message, "count": p.count} for p in error.problems]
    body |= {"problems": problems, "problem_count": error.total, "request_id": getattr(request, "id", "")}
    return JsonResponse(body, status=error.status, content_type="application/problem+json")
