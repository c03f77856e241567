"""The front door, the refusals, and what holds for every page: no inline code, no other host, enough contrast."""

import re
from pathlib import Path

import pytest
from django.conf import settings
from django.http import HttpRequest
from django.test import Client, RequestFactory
from django.utils.functional import SimpleLazyObject

from annotation import errors, services
from annotation.models import Project, User
from tests.conftest import PASSWORD

TEXT_CONTRAST = 4.5  # WCAG 1.4.3, AA
GRAPHIC_CONTRAST = 3.0  # WCAG 1.4.11
CSS = (settings.BASE_DIR / "static" / "concord.css").read_text(encoding="utf-8")
TEMPLATES = sorted((settings.BASE_DIR / "templates").rglob("*.html"))


@pytest.mark.django_db
def test_a_visitor_sees_open_studies_that_are_listed_and_no_others(
    client: Client, project: Project, owner: User
) -> None:
    services.create_project(owner=owner, slug="secret", title="Not yet announced", listed=True)
    assert project.title not in client.get("/").content.decode(), "opening a study does not make it public"
    Project.objects.update(listed=True)
    page = client.get("/").content.decode()
    assert project.title in page
    assert 'href="/s/pets/"' in page
    assert "Not yet announced" not in page


@pytest.mark.django_db
def test_a_study_with_simulated_data_says_so(client: Client, project: Project) -> None:
    assert "simulated data" not in client.get("/").content.decode()
    Project.objects.update(simulated=True, listed=True)
    assert "demonstration with simulated data" in client.get("/").content.decode()


@pytest.mark.django_db
def test_a_fresh_install_says_that_no_study_is_open(client: Client) -> None:
    page = client.get("/").content.decode()
    assert "No study is open just now." in page
    assert 'href="/accounts/login/"' in page


@pytest.mark.django_db
def test_a_title_is_shown_and_not_run(client: Client, project: Project) -> None:
    Project.objects.update(title="<script>alert(1)</script>{{ 7 }}", listed=True)
    page = client.get("/").content.decode()
    assert "<script>" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;{{ 7 }}" in page


@pytest.mark.django_db
def test_the_door_opens_with_the_right_password_only(client: Client, owner: User) -> None:
    wrong = client.post("/accounts/login/", {"username": "olga", "password": "wrong"})
    assert "do not match" in wrong.content.decode()
    right = client.post("/accounts/login/", {"username": "olga", "password": PASSWORD})
    assert right.headers["Location"] == "/projects/"
    assert "Log out" in client.get("/").content.decode()


@pytest.mark.django_db
def test_five_wrong_passwords_lock_the_door_in_plain_words(client: Client, owner: User) -> None:
    for _attempt in range(5):
        answer = client.post("/accounts/login/", {"username": "olga", "password": "wrong"})
    assert answer.status_code == 429
    assert answer.headers["Retry-After"] == "900"
    assert "Too many attempts to log in." in answer.content.decode()


@pytest.mark.django_db
def test_an_unknown_address_answers_in_words_with_the_number_of_the_request(client: Client) -> None:
    answer = client.get("/nowhere/")
    page = answer.content.decode()
    assert answer.status_code == 404
    assert "There is nothing at this address." in page
    assert answer.headers["X-Request-ID"] in page


def request_whose_database_is_away() -> HttpRequest:
    def unreachable() -> User:
        raise AssertionError("the error page asked who is there")

    request = RequestFactory().get("/", headers={"accept": "text/html"})
    request.user = SimpleLazyObject(unreachable)
    request.id = "0123456789ab"
    return request


@pytest.mark.parametrize(
    ("view", "status", "words"),
    [
        (errors.bad_request, 400, "We could not read that request."),
        (errors.forbidden, 403, "Your account may not do this."),
        (errors.csrf_failed, 403, "Your page is out of date."),
        (errors.not_found, 404, "There is nothing at this address."),
        (errors.too_many, 429, "That was too fast for us."),
        (errors.server_error, 500, "Something went wrong on our side."),
        (errors.unavailable, 503, "The server cannot reach its database, or its disk is full."),
    ],
)
def test_every_refusal_is_a_page_that_needs_no_database_and_no_person(view, status: int, words: str) -> None:
    answer = view(request_whose_database_is_away())
    page = answer.content.decode()
    assert answer.status_code == status
    assert f"<h1>{words}</h1>" in page
    assert "0123456789ab" in page


@pytest.mark.django_db
def test_a_page_may_load_nothing_from_elsewhere(client: Client) -> None:
    policy = client.get("/").headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)
def test_no_template_holds_inline_code_or_another_host(template: Path) -> None:
    text = template.read_text(encoding="utf-8")
    assert not re.search(r"\sstyle=|<style|\son\w+=|javascript:", text)
    assert not re.search(r"<script(?![^>]*\b(src=|type=.application/json))", text)
    assert not re.search(r"""(src|href)=["'](https?:)?//""", text)


def test_the_style_sheet_loads_nothing() -> None:
    assert not re.search(r"@import|url\(|@font-face", CSS)


def colours(scheme: str) -> dict[str, str]:
    light, dark = CSS.split("/* Ground")[0].split("@media screen and (prefers-color-scheme: dark)")
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", light if scheme == "light" else dark))


def luminance(colour: str) -> float:
    """WCAG's relative luminance of #rrggbb."""
    parts = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted([luminance(one), luminance(other)])
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_have_enough_contrast(scheme: str) -> None:
    shades = colours(scheme)
    grounds = {
        "ink": ["paper", "surface", "sunken", "wash", "danger-wash"],
        "soft": ["paper", "surface", "sunken"],
        "accent": ["paper", "surface", "wash", "danger-wash"],
        "on-accent": ["accent", "accent-strong"],
        "warn": ["warn-wash", "paper", "surface"],
        "danger": ["paper", "surface"],
        "on-danger": ["danger"],
    }
    pairs = [(words, ground) for words, several in grounds.items() for ground in several]
    faint = [pair for pair in pairs if contrast(shades[pair[0]], shades[pair[1]]) < TEXT_CONTRAST]
    assert faint == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_categories_and_edges_have_enough_contrast(scheme: str) -> None:
    shades = colours(scheme)
    marks = ["edge", *(f"c{number}" for number in range(1, 8))]
    faint = [mark for mark in marks if contrast(shades[mark], shades["surface"]) < GRAPHIC_CONTRAST]
    assert faint == []
