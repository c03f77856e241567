"""Query parameters of dashboard pages, and links to the pages of items and workers.

An unknown or malformed parameter gives the default page, not an error. Page numbers are passed as text to
`Paginator.get_page`, which does the same.
"""

from collections.abc import Iterable

from django.http import QueryDict
from django.shortcuts import get_object_or_404
from django.urls import reverse

from annotation.models import Project, Worker

MAX_SEARCH_LENGTH = 200


def search_term(query: QueryDict, name: str) -> str:
    return query.get(name, "").replace("\0", "").strip()[:MAX_SEARCH_LENGTH]


def get_worker_or_404(project: Project, code: str) -> Worker:
    """Return a worker by code; an erased worker gives the same 404 as one that never existed."""
    worker = get_object_or_404(Worker.objects.visible().select_related("identity", "arm"), project=project, code=code)
    worker.project = project
    return worker


def worker_urls(project: Project, codes: Iterable[str]) -> list[str]:
    """Links to these workers' pages, built with one `reverse` call because a map has thousands of points."""
    base = reverse("modelling:workers", args=[project.slug])
    return [f"{base}{code}/" for code in codes]


def item_urls(project: Project, ids: Iterable[int]) -> list[str]:
    """Links to these items' pages."""
    base = reverse("modelling:ranking", args=[project.slug])
    return [f"{base}{pk}/" for pk in ids]
