"""The items of a study: the list, one item with its history, and changes by hand."""

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

from annotation.access import Role, may, members_only
from annotation.curation import KeyTaken, Outdated, add_item, correct_item, current_items, switch_item
from annotation.forms.items import CorrectionForm, FilterForm, ItemForm
from annotation.models import Item, Judgement, Project
from annotation.views import ResearcherRequest

PAGE = 50


@require_safe
@members_only(Role.VIEWER)
def listing(request: ResearcherRequest, project: Project) -> HttpResponse:
    """The newest text of every item, searched and filtered."""
    form = FilterForm(project, request.GET)
    form.is_valid()
    rows = _filtered(current_items(project), form.cleaned_data)
    page = Paginator(rows, PAGE).get_page(request.GET.get("page"))
    context = {
        "project": project,
        "form": form,
        "page": page,
        "n_items": current_items(project).count(),
        "may_change": may(request.role, Role.ANALYST),
    }
    return render(request, "annotation/items.html", context)


def _filtered(rows: "QuerySet[Item]", wanted: dict[str, Any]) -> "QuerySet[Item]":
    if words := wanted.get("q"):
        rows = rows.filter(Q(key__icontains=words) | Q(text__icontains=words))
    if group := wanted.get("group"):
        rows = rows.filter(group=group)
    if state := wanted.get("state"):
        rows = rows.filter(active=state == "on")
    return rows


@require_http_methods(["GET", "HEAD", "POST"])
@members_only(Role.ANALYST)
def add(request: ResearcherRequest, project: Project) -> HttpResponse:
    """One more item by hand."""
    form = ItemForm(request.POST if request.method == "POST" else None)
    if form.is_valid():
        try:
            item = add_item(project=project, user=request.user, **form.cleaned_data)
        except KeyTaken as refused:
            form.add_error("key", str(refused))
        else:
            messages.success(request, _("The item was added."))
            return redirect(item)
    context = {"project": project, "form": form}
    return render(request, "annotation/item_add.html", context, status=422 if form.is_bound else 200)


@require_http_methods(["GET", "HEAD", "POST"])
@members_only(Role.VIEWER)
def show(request: ResearcherRequest, project: Project, pk: int) -> HttpResponse:
    """One item with every text it had; an analyst can correct the newest."""
    item = get_object_or_404(Item, project=project, pk=pk)
    if request.method == "POST":
        return _correct(request, item)
    return _item_page(request, item, CorrectionForm(initial={"text": item.text, "group": item.group}))


def _correct(request: ResearcherRequest, item: Item) -> HttpResponse:
    """Other words become a new revision; what was typed is never lost."""
    if not may(request.role, Role.ANALYST):
        raise PermissionDenied
    form = CorrectionForm(request.POST)
    if not form.is_valid():
        return _item_page(request, item, form, status=422)
    try:
        corrected = correct_item(item=item, user=request.user, **form.cleaned_data)
    except Outdated as refused:
        form.add_error(None, f"{refused.title} {refused.detail}")
        return _item_page(request, item, form, status=refused.status)
    messages.success(request, _("Saved.") if corrected.pk == item.pk else _("The corrected text is a new revision."))
    return redirect(corrected)


@require_POST
@members_only(Role.ANALYST)
def switch(request: ResearcherRequest, project: Project, pk: int) -> HttpResponse:
    """The item is given to workers from now on, or no longer is."""
    item = get_object_or_404(Item, project=project, pk=pk)
    active = request.POST.get("active") == "on"
    item = switch_item(item=item, user=request.user, active=active)
    told = _("Workers can be given this item again.") if active else _("Workers are no longer given this item.")
    messages.success(request, told)
    return redirect(item)


def _item_page(request: ResearcherRequest, item: Item, form: CorrectionForm, status: int = 200) -> HttpResponse:
    revisions = list(Item.objects.filter(project=item.project).of_key(item.key))
    judged = _times_judged(revisions)
    context = {
        "project": item.project,
        "item": item,
        "newest": revisions[0],
        "form": form,
        "history": [(revision, judged[revision.pk]) for revision in revisions],
        "may_change": may(request.role, Role.ANALYST),
    }
    return render(request, "annotation/item.html", context, status=status)


def _times_judged(revisions: list[Item]) -> Counter[int]:
    """How many standing answers each of these texts has."""
    answers = Judgement.objects.answers()
    judged = Counter[int]()
    for side in ("item_lo", "item_hi"):
        rows = answers.filter(**{f"{side}__in": revisions}).order_by().values_list(side).annotate(Count("pk"))
        judged.update(dict(rows))
    return judged
