"""What an address asks for, where what is unknown asks for the plain page; and the addresses of many pages at once."""

from collections.abc import Iterable

from django.http import QueryDict
from django.shortcuts import get_object_or_404
from django.urls import reverse

from annotation.models import Project, Worker

LONGEST = 200
DIGITS = 5  # of a page's number


def page_number(query: QueryDict) -> int:
    given = query.get("page", "1")
    return int(given) if given.isdecimal() and len(given) <= DIGITS else 1


def worker_at(project: Project, code: str) -> Worker:
    """The worker whom an address names; 404 for somebody who is gone as for somebody who never was."""
    found = get_object_or_404(Worker.objects.that_may_be_told(), project=project, code=code)
    found.project = project
    return found


def workers_at(project: Project, codes: Iterable[str]) -> list[str]:
    """Where the pages of these workers are. The address is resolved once: a map has thousands of points."""
    base = reverse("modelling:workers", args=[project.slug])
    return [f"{base}{code}/" for code in codes]


def items_at(project: Project, ids: Iterable[int]) -> list[str]:
    """Where the pages of these items are."""
    base = reverse("modelling:ranking", args=[project.slug])
    return [f"{base}{pk}/" for pk in ids]


def words_in(query: QueryDict, name: str) -> str:
    return query.get(name, "").replace("\0", "").strip()[:LONGEST]
