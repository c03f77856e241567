"""The four groups of a study's pages, by role and by page."""

import re
from collections.abc import Callable

import pytest
from django.test import Client

from annotation.models import Project, User

pytestmark = pytest.mark.django_db
LogIn = Callable[[User], Client]


def navigation(client: Client, path: str) -> list[str]:
    """The texts of the navigation links of a page; the current ones are marked with a star."""
    page = client.get(f"/projects/pets/{path}").content.decode()
    head = page.split('<header class="project-head">')[1].split("</header>")[0]
    links = re.findall(r"<a href=\"[^\"]+\"\s*(aria-current=\"\w+\")?>([^<]+)</a>", head)
    return [f"{label}*" if current else label for current, label in links]


def test_owners_see_four_groups_and_the_pages_of_the_current_one(project: Project, owner: User, log_in: LogIn) -> None:
    assert navigation(log_in(owner), "") == [
        "Collect*", "Results", "Model", "Share",
        "Overview*", "Progress", "Items", "Study designer", "Link for workers", "Participants", "Suggested pairs",
        "When to stop", "Passport", "Settings",
    ]  # fmt: skip


def test_settings_are_divided_into_pages(project: Project, owner: User, log_in: LogIn) -> None:
    assert navigation(log_in(owner), "arms/")[-6:] == [
        "Settings*", "General", "Questions", "Preparation", "Arms*", "Recruitment",
    ]  # fmt: skip
    assert 'aria-current="true">Settings' in log_in(owner).get("/projects/pets/arms/").content.decode()


def test_viewers_see_only_pages_that_they_may_open(project: Project, viewer: User, log_in: LogIn) -> None:
    client = log_in(viewer)
    assert navigation(client, "link/") == [
        "Collect*", "Results", "Model", "Overview", "Progress", "Items", "Study designer", "Link for workers*",
        "Suggested pairs", "When to stop", "Passport",
    ]  # fmt: skip
    assert navigation(client, "model/") == ["Collect", "Results", "Model*"]


@pytest.mark.parametrize(
    ("path", "current"),
    [
        ("items/add/", "Items"),
        ("judgements/import/", "Overview"),
        ("copy/", "Settings*General"),
        ("delete/", "Settings*General"),
        ("gold/", "Settings*Preparation"),
        ("people/", "Settings*Recruitment"),
        ("suggestions/", "Suggested pairs"),
        ("ranking/?q=cats", "Ranking"),
        ("components/", "Components"),
        ("model/settings/", "Model settings"),
        ("webhooks/", "Webhooks"),
        ("members/", "Members"),
    ],
)
def test_every_page_marks_its_own_place(path: str, current: str, project: Project, owner: User, log_in: LogIn) -> None:
    marked = [label for label in navigation(log_in(owner), path) if label.endswith("*")]
    assert "".join(marked[1:]) == f"{current}*"
