"""Files in the browser: upload, look at what would change, confirm. Nothing is written before the last step."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from itertools import islice
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.csrf import csrf_exempt, csrf_protect
from django.views.decorators.http import require_http_methods

from annotation.access import Role, View, members_only
from annotation.errors import refuse, wants_json
from annotation.importing import holding, item_rows, items, judgement_rows, judgements
from annotation.importing.problems import ImportRefused, TooLarge
from annotation.importing.reading import check_size
from annotation.models import Project
from annotation.views import ResearcherRequest

SHOWN = 10
CORRECTIONS_SHOWN = 20
FORM_BYTES = 100_000  # what a form adds to the file it carries


@dataclass(frozen=True)
class Kind:
    """What differs between importing items and importing judgements."""

    name: str
    read: Callable[..., list[Any]]
    plan: Callable[..., Any]
    write: Callable[..., Any]
    show: Callable[..., dict[str, Any]]
    told: Callable[[dict[str, int]], str]
    then: str


def small_enough(view: View) -> View:
    """Refuses by the announced length before the body is parsed.

    The CSRF check parses the body, so it must stand inside of this one: hence csrf_exempt and csrf_protect below.
    """

    @wraps(view)
    def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        announced = str(request.META.get("CONTENT_LENGTH", ""))
        try:
            check_size((int(announced) if announced.isdecimal() else 0) - FORM_BYTES)
        except TooLarge as refused:
            return refuse(request, refused.status, str(refused.title), str(refused.detail), "")
        return view(request, *args, **kwargs)

    return guarded


@csrf_exempt
@small_enough
@csrf_protect
@require_http_methods(["GET", "HEAD", "POST"])
@members_only(Role.ANALYST)
def import_items(request: ResearcherRequest, project: Project) -> HttpResponse:
    """Items from a CSV file."""
    return _import(request, project, ITEMS)


@csrf_exempt
@small_enough
@csrf_protect
@require_http_methods(["GET", "HEAD", "POST"])
@members_only(Role.ANALYST)
def import_judgements(request: ResearcherRequest, project: Project) -> HttpResponse:
    """Past judgements from a CSV file."""
    return _import(request, project, JUDGEMENTS)


def _import(request: ResearcherRequest, project: Project, kind: Kind) -> HttpResponse:
    """The empty form, a preview, the import itself, or what is wrong."""
    holding.forget_old()
    try:
        if "ticket" in request.POST:
            return _confirm(request, project, kind)
        if request.method == "POST":
            return _upload(request, project, kind)
    except ImportRefused as refused:
        return _refused(request, project, kind, refused)
    return _page(request, project, kind)


def _upload(request: ResearcherRequest, project: Project, kind: Kind) -> HttpResponse:
    """The file is kept for the confirmation if it is in order, and forgotten if it is not."""
    upload = request.FILES.get("file")
    if upload is None:
        raise ImportRefused(_("No file was chosen."))
    check_size(upload.size or 0)
    name = holding.keep(upload)
    try:
        return _preview(request, project, kind, name)
    except ImportRefused:
        holding.drop(name)
        raise


def _preview(request: ResearcherRequest, project: Project, kind: Kind, name: str, moved: bool = False) -> HttpResponse:
    """What the file would change, and a button to do it."""
    rows = kind.read(holding.path_of(name))
    plan = kind.plan(project, rows)
    ticket = holding.ticket(name, project=project, user=request.user, kind=kind.name, basis=plan.basis)
    if not plan.changes_anything:
        holding.drop(name)
    return _page(
        request, project, kind, plan=plan, ticket=ticket, moved=moved, total=len(rows), **kind.show(plan, rows)
    )


def _confirm(request: ResearcherRequest, project: Project, kind: Kind) -> HttpResponse:
    """Exactly what was previewed is written; if the project changed since, the preview is shown anew."""
    held = holding.redeem(request.POST["ticket"], project=project, user=request.user, kind=kind.name)
    try:
        rows = kind.read(holding.path_of(held["name"]))
    except FileNotFoundError:
        raise holding.NotHeld from None
    if kind.plan(project, rows).basis != held["basis"]:
        return _preview(request, project, kind, held["name"], moved=True)
    counts = kind.write(project=project, user=request.user, rows=rows).counts
    holding.drop(held["name"])
    messages.success(request, kind.told(counts))
    return redirect(kind.then, project.slug)


def _page(request: HttpRequest, project: Project, kind: Kind, status: int = 200, **facts: Any) -> HttpResponse:
    limits = {"most_mb": settings.IMPORT_MAX_BYTES // 1_000_000, "most_rows": settings.IMPORT_MAX_ROWS}
    return render(
        request, f"annotation/import_{kind.name}.html", {"project": project, **limits, **facts}, status=status
    )


def _refused(request: HttpRequest, project: Project, kind: Kind, refused: ImportRefused) -> HttpResponse:
    """The form again, with everything that is wrong; for a script, the same as problem+json."""
    if not wants_json(request):
        return _page(request, project, kind, status=refused.status, refused=refused)
    body = {"type": "about:blank", "title": str(refused.title), "status": refused.status, "detail": str(refused.detail)}
    problems = [{"line": p.line, "column": p.column, "message": p.message} for p in refused.problems]
    body |= {"problems": problems, "problem_count": refused.total, "request_id": getattr(request, "id", "")}
    return JsonResponse(body, status=refused.status, content_type="application/problem+json")


def _show_items(plan: item_rows.Plan, rows: list[item_rows.Draft]) -> dict[str, Any]:
    outcomes = plan.outcomes()
    first = [(draft, outcomes[draft.key]) for draft in rows[:SHOWN]]
    return {"first": first, "corrections": list(islice(plan.corrected, CORRECTIONS_SHOWN))}


def _show_judgements(plan: judgement_rows.Plan, rows: list[judgement_rows.Answer]) -> dict[str, Any]:
    return {"first": rows[:SHOWN]}


def _told_items(counts: dict[str, int]) -> str:
    words = _("%(added)s items were added, %(corrected)s corrected, %(updated)s got other details; %(unchanged)s stay.")
    return words % {name: f"{count:,}" for name, count in counts.items()}


def _told_judgements(counts: dict[str, int]) -> str:
    words = ngettext(
        "%(added)s judgement was added; %(unchanged)s were there already.",
        "%(added)s judgements were added; %(unchanged)s were there already.",
        counts["added"],
    )
    return words % {name: f"{count:,}" for name, count in counts.items()}


ITEMS = Kind(
    name="items",
    read=items.read_items,
    plan=items.plan_items,
    write=items.import_items,
    show=_show_items,
    told=_told_items,
    then="annotation:items",
)
JUDGEMENTS = Kind(
    name="judgements",
    read=judgements.read_judgements,
    plan=judgements.plan_judgements,
    write=judgements.import_judgements,
    show=_show_judgements,
    told=_told_judgements,
    then="annotation:project",
)
