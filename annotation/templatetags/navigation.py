"""Study navigation: four groups of pages; users see the pages that their role may open."""

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
    """A page with its view.

    `also` names views that belong to the page although their URLs do not start with its own; `parts` are the pages
    that it is divided into, including itself.
    """

    view: str
    label: Any
    role: str = Role.VIEWER
    also: tuple[str, ...] = ()
    parts: tuple["PageEntry", ...] = ()


SETTINGS = (
    PageEntry(
        "annotation:project_settings",
        _("General"),
        Role.OWNER,
        also=("annotation:project_copy", "annotation:project_delete"),
    ),
    PageEntry("annotation:questions", _("Questions"), Role.OWNER),
    PageEntry("annotation:preparation", _("Preparation"), Role.OWNER, also=("annotation:gold",)),
    PageEntry("annotation:arms", _("Arms"), Role.OWNER),
    PageEntry("annotation:recruitment", _("Recruitment"), Role.OWNER, also=("annotation:worker_invitations",)),
)


GROUPS: list[tuple[Any, list[PageEntry]]] = [
    (
        _("Collect"),
        [
            PageEntry("annotation:project", _("Overview")),
            PageEntry("modelling:progress", _("Progress")),
            PageEntry("annotation:items", _("Items")),
            PageEntry("modelling:designer", _("Study designer")),
            PageEntry("annotation:worker_link", _("Link for workers")),
            PageEntry("annotation:participants", _("Participants"), Role.OWNER),
            PageEntry("modelling:suggestions", _("Suggested pairs")),
            PageEntry("modelling:stopping", _("When to stop")),
            PageEntry("annotation:passport", _("Passport")),
            PageEntry("annotation:project_settings", _("Settings"), Role.OWNER, parts=SETTINGS),
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
    """A link to a page, with links to its parts; `current` is the value of aria-current, if any."""

    url: str
    label: Any
    current: str = ""
    parts: tuple["PageLink", ...] = ()


@dataclass(frozen=True)
class GroupLinks:
    """A group and its pages; the group's link leads to its first page."""

    label: Any
    pages: list[PageLink]

    @property
    def url(self) -> str:
        return self.pages[0].url

    @property
    def current_page(self) -> PageLink | None:
        return next((page for page in self.pages if page.current), None)


@register.simple_tag(takes_context=True)
def study_navigation(context: template.Context, project: Project) -> list[GroupLinks]:
    """The groups and pages that the user may open, with the current page marked."""
    request = context["request"]
    allowed = [(label, [page for page in pages if has_role(request.role, page.role)]) for label, pages in GROUPS]
    entries = [part for _label, pages in allowed for page in pages for part in (page, *page.parts)]
    urls = {entry.view: reverse(entry.view, args=[project.slug]) for entry in entries}
    view = request.resolver_match.view_name if request.resolver_match else ""
    named = [entry.view for entry in entries if view in entry.also]
    extended = [name for name, url in urls.items() if request.path.startswith(url)]
    here = named[0] if named else max(extended, key=lambda name: len(urls[name]), default="")

    def link(entry: PageEntry) -> PageLink:
        parts = tuple(map(link, entry.parts))
        current = "true" if any(part.current for part in parts) else "page" if entry.view == here else ""
        return PageLink(urls[entry.view], entry.label, current, parts)

    return [GroupLinks(label, list(map(link, pages))) for label, pages in allowed if pages]
