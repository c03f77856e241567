"""Pages for a study's items: list, detail page with history, add, correct, activate and deactivate."""

from collections import Counter
from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.db.models import Count, Q, QuerySet
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from annotation.forms.items import ItemCorrectionForm, ItemCreateForm, ItemFilterForm
from annotation.http.access import Role, has_role, members_only
from annotation.models import Item, Judgement, Project
from annotation.services.items import EditConflict, KeyTaken, add_item, correct_item, current_items, set_item_active
from annotation.views import ResearcherRequest

PAGE_SIZE = 25


@require_safe
@members_only(Role.VIEWER)
def listing(request: ResearcherRequest, project: Project) -> HttpResponse:
    """List the newest revision of every item, searched and filtered."""
    form = ItemFilterForm(project, request.GET)
    form.is_valid()
    rows = _filter_items(current_items(project), form.cleaned_data)
    page = Paginator(rows, PAGE_SIZE).get_page(request.GET.get("page"))
    context = {
        "project": project,
        "form": form,
        "page": page,
        "n_items": current_items(project).count(),
        "may_change": has_role(request.role, Role.ANALYST),
    }
    return render(request, "annotation/items/list.html", context)


def _filter_items(items: "QuerySet[Item]", filters: dict[str, Any]) -> "QuerySet[Item]":
    if search := filters.get("q"):
        items = items.filter(Q(key__icontains=search) | Q(text__icontains=search))
    if group := filters.get("group"):
        items = items.filter(group=group)
    if state := filters.get("state"):
        items = items.filter(active=state == "on")
    return items


@require_http_methods(["GET", "HEAD", "POST"])
@members_only(Role.ANALYST)
def add(request: ResearcherRequest, project: Project) -> HttpResponse:
    form = ItemCreateForm(request.POST if request.method == "POST" else None)
    if form.is_valid():
        try:
            item = add_item(project=project, user=request.user, **form.cleaned_data)
        except KeyTaken as error:
            form.add_error("key", str(error))
        else:
            messages.success(request, _("The item was added."))
            return redirect(item)
    context = {"project": project, "form": form}
    return render(request, "annotation/items/add.html", context, status=422 if form.is_bound else 200)


@require_http_methods(["GET", "HEAD", "POST"])
@members_only(Role.VIEWER)
def show(request: ResearcherRequest, project: Project, pk: int) -> HttpResponse:
    """Show one revision with the item's history; analysts can correct the newest."""
    item = get_object_or_404(Item, project=project, pk=pk)
    if request.method == "POST":
        return _correct(request, item)
    return _item_page(request, item, ItemCorrectionForm(initial={"text": item.text, "group": item.group}))


def _correct(request: ResearcherRequest, item: Item) -> HttpResponse:
    """Store a changed text as a new revision; on a conflict the form keeps what was typed."""
    if not has_role(request.role, Role.ANALYST):
        raise PermissionDenied
    form = ItemCorrectionForm(request.POST)
    if not form.is_valid():
        return _item_page(request, item, form, status=422)
    try:
        corrected = correct_item(item=item, user=request.user, **form.cleaned_data)
    except EditConflict as error:
        form.add_error(None, f"{error.title} {error.detail}")
        return _item_page(request, item, form, status=error.status)
    messages.success(request, _("Saved.") if corrected.pk == item.pk else _("Saved as a new revision."))
    return redirect(corrected)


@require_POST
@members_only(Role.ANALYST)
def set_active(request: ResearcherRequest, project: Project, pk: int) -> HttpResponse:
    """Activate or deactivate an item; workers see only active items."""
    item = get_object_or_404(Item, project=project, pk=pk)
    active = request.POST.get("active") == "on"
    item = set_item_active(item=item, user=request.user, active=active)
    message = (
        _("The item is active. Workers will see it again.")
        if active
        else _("The item is inactive. Workers will no longer see it.")
    )
    messages.success(request, message)
    return redirect(item)


def _item_page(request: ResearcherRequest, item: Item, form: ItemCorrectionForm, status: int = 200) -> HttpResponse:
    revisions = list(Item.objects.filter(project=item.project).revisions(item.key))
    n_judgements = _count_judgements(revisions)
    context = {
        "project": item.project,
        "item": item,
        "newest": revisions[0],
        "form": form,
        "history": [(revision, n_judgements[revision.pk]) for revision in revisions],
        "may_change": has_role(request.role, Role.ANALYST),
    }
    return render(request, "annotation/items/detail.html", context, status=status)


def _count_judgements(revisions: list[Item]) -> Counter[int]:
    """Count the judgements of each revision, excluding retracted ones."""
    answers = Judgement.objects.answers()
    counts = Counter[int]()
    for side in ("item_lo", "item_hi"):
        rows = answers.filter(**{f"{side}__in": revisions}).order_by().values_list(side).annotate(Count("pk"))
        counts.update(dict(rows))
    return counts
