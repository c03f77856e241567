"""Navigation of a study: five groups of pages, of which a user sees those that their role may open."""

from dataclasses import dataclass
from typing import Any

from django import template
from django.urls import reverse
from django.utils.translation import gettext_lazy as _

from annotation.http.access import Role, has_role
from annotation.models import Project

register = template.Library()


@dataclass(frozen=True)
class PageEntry:
    """A page with its view; `also` names views that belong to it although their URLs do not start with its own."""

    view: str
    label: Any
    role: str = Role.VIEWER
    also: tuple[str, ...] = ()


GROUPS: list[tuple[Any, list[PageEntry]]] = [
    (
        _("Collect"),
        [
            PageEntry("annotation:project", _("Overview")),
            PageEntry("modelling:progress", _("Progress")),
            PageEntry("annotation:items", _("Items")),
            PageEntry("annotation:worker_link", _("Link for workers")),
            PageEntry("annotation:recruitment", _("Recruitment"), Role.OWNER, also=("annotation:worker_invitations",)),
            PageEntry("annotation:preparation", _("Preparation"), Role.OWNER, also=("annotation:gold",)),
            PageEntry("annotation:arms", _("Arms"), Role.OWNER),
            PageEntry("annotation:participants", _("Participants"), Role.OWNER),
            PageEntry("annotation:passport", _("Passport")),
            PageEntry(
                "annotation:project_settings",
                _("Settings"),
                Role.OWNER,
                also=("annotation:project_copy", "annotation:project_delete", "annotation:questions"),
            ),
        ],
    ),
    (
        _("Plan"),
        [
            PageEntry("modelling:suggestions", _("Suggested pairs")),
            PageEntry("modelling:stopping", _("When to stop")),
        ],
    ),
    (
        _("Results"),
        [
            PageEntry("modelling:ranking", _("Ranking")),
            PageEntry("modelling:claims", _("Claims")),
            PageEntry("modelling:workers", _("Workers")),
            PageEntry("modelling:components", _("Components")),
            PageEntry("modelling:reliability", _("Reliability")),
            PageEntry("modelling:pairs", _("Pairs")),
            PageEntry("modelling:new_text", _("Test a text")),
        ],
    ),
    (
        _("Model"),
        [
            PageEntry("modelling:model", _("Versions")),
            PageEntry("modelling:model_settings", _("Model settings"), Role.OWNER),
        ],
    ),
    (
        _("Share"),
        [
            PageEntry("modelling:exports", _("Exports"), Role.ANALYST),
            PageEntry("annotation:members", _("Members"), Role.OWNER),
            PageEntry("modelling:webhooks", _("Webhooks"), Role.OWNER),
        ],
    ),
]


@dataclass(frozen=True)
class PageLink:
    url: str
    label: Any
    current: bool


@dataclass(frozen=True)
class GroupLinks:
    """A group and its pages; the link of the group leads to its first page."""

    label: Any
    pages: list[PageLink]

    @property
    def url(self) -> str:
        return self.pages[0].url

    @property
    def current(self) -> bool:
        return any(page.current for page in self.pages)


@register.simple_tag(takes_context=True)
def study_navigation(context: template.Context, project: Project) -> list[GroupLinks]:
    """The groups with the pages that the user may open; the current page is the one whose URL the request's extends."""
    request = context["request"]
    allowed = [(label, [page for page in pages if has_role(request.role, page.role)]) for label, pages in GROUPS]
    urls = {page.view: reverse(page.view, args=[project.slug]) for _label, pages in allowed for page in pages}
    view = request.resolver_match.view_name if request.resolver_match else ""
    named = [page.view for _label, pages in allowed for page in pages if view in page.also]
    extended = [name for name, url in urls.items() if request.path.startswith(url)]
    here = named[0] if named else max(extended, key=lambda name: len(urls[name]), default="")
    return [
        GroupLinks(label, [PageLink(urls[page.view], page.label, page.view == here) for page in pages])
        for label, pages in allowed
        if pages
    ]
