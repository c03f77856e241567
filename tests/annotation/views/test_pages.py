"""Home, log-in and error pages, and rules for every page: no inline code, no external resources, enough contrast."""

import re
from pathlib import Path

import pytest
from django.conf import settings
from django.http import HttpRequest
from django.test import Client, RequestFactory
from django.utils.functional import SimpleLazyObject

from annotation import services
from annotation.http import error_pages
from annotation.models import Project, User, Worker
from tests.conftest import PASSWORD

TEXT_CONTRAST = 4.5  # WCAG 1.4.3, AA
GRAPHIC_CONTRAST = 3.0  # WCAG 1.4.11
CSS = (settings.BASE_DIR / "static" / "concord.css").read_text(encoding="utf-8")
TEMPLATE_FOLDER = settings.BASE_DIR / "templates"
TEMPLATES = sorted(TEMPLATE_FOLDER.rglob("*.html"))
REPORT = Path("modelling/report/report.html")  # a file to download: its own policy allows its style sheet only


@pytest.mark.django_db
def test_the_home_page_lists_only_open_listed_studies(client: Client, project: Project, owner: User) -> None:
    services.create_project(owner=owner, slug="secret", title="Not yet announced", listed=True)
    assert project.title not in client.get("/").content.decode(), "opening a study does not make it public"
    Project.objects.update(listed=True)
    page = client.get("/").content.decode()
    assert project.title in page
    assert 'href="/s/pets/"' in page
    assert "Not yet announced" not in page


@pytest.mark.django_db
def test_a_study_with_simulated_data_is_marked(client: Client, project: Project) -> None:
    assert "simulated data" not in client.get("/").content.decode()
    Project.objects.update(simulated=True, listed=True)
    assert "demonstration with simulated data" in client.get("/").content.decode()


@pytest.mark.django_db
def test_without_open_studies_the_home_page_says_so(client: Client) -> None:
    page = client.get("/").content.decode()
    assert "No study is open at the moment." in page
    assert 'href="/accounts/login/"' in page


@pytest.mark.django_db
def test_titles_are_escaped(client: Client, project: Project) -> None:
    Project.objects.update(title="<script>alert(1)</script>{{ 7 }}", listed=True)
    page = client.get("/").content.decode()
    assert "<script>" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;{{ 7 }}" in page


@pytest.mark.django_db
def test_log_in_needs_the_right_password(client: Client, owner: User) -> None:
    wrong = client.post("/accounts/login/", {"username": "olga", "password": "wrong"})
    assert "The username or password is wrong." in wrong.content.decode()
    right = client.post("/accounts/login/", {"username": "olga", "password": PASSWORD})
    assert right.headers["Location"] == "/projects/"
    assert "Log out" in client.get("/").content.decode()


@pytest.mark.django_db
def test_five_wrong_passwords_lock_the_account(client: Client, owner: User) -> None:
    for _attempt in range(5):
        response = client.post("/accounts/login/", {"username": "olga", "password": "wrong"})
    assert response.status_code == 429
    assert response.headers["Retry-After"] == "900"
    assert "Too many failed attempts to log in." in response.content.decode()


@pytest.mark.django_db
def test_the_404_page_shows_the_request_id(client: Client) -> None:
    response = client.get("/nowhere/")
    page = response.content.decode()
    assert response.status_code == 404
    assert "There is no page at this address." in page
    assert response.headers["X-Request-ID"] in page


def request_without_database() -> HttpRequest:
    def unreachable() -> User:
        raise AssertionError("the error page asked for the user")

    request = RequestFactory().get("/", headers={"accept": "text/html"})
    request.user = SimpleLazyObject(unreachable)
    request.id = "0123456789ab"
    return request


@pytest.mark.parametrize(
    ("view", "status", "message"),
    [
        (error_pages.bad_request, 400, "We could not read that request."),
        (error_pages.forbidden, 403, "You do not have permission to do this."),
        (error_pages.csrf_failure, 403, "Your browser did not send a cookie."),
        (error_pages.not_found, 404, "There is no page at this address."),
        (error_pages.too_many_requests, 429, "Too many requests in a short time."),
        (error_pages.server_error, 500, "Something went wrong on our side."),
        (error_pages.service_unavailable, 503, "The server cannot reach its database, or its disk is full."),
    ],
)
def test_error_pages_need_no_database_and_no_user(view, status: int, message: str) -> None:
    response = view(request_without_database())
    page = response.content.decode()
    assert response.status_code == status
    assert f"<h1>{message}</h1>" in page
    assert "0123456789ab" in page


@pytest.mark.django_db
def test_the_content_security_policy_allows_only_our_own_resources(client: Client) -> None:
    policy = client.get("/").headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)
def test_templates_contain_no_inline_code_and_no_other_host(template: Path) -> None:
    text = template.read_text(encoding="utf-8")
    if template.relative_to(TEMPLATE_FOLDER) != REPORT:
        assert "<style" not in text
    assert not re.search(r"\sstyle=|\son\w+=|javascript:", text)
    assert not re.search(r"<script(?![^>]*\b(src=|type=.application/json))", text)
    assert not re.search(r"""(src|href)=["'](https?:)?//""", text)


def test_the_style_sheet_loads_no_resources() -> None:
    assert not re.search(r"@import|url\(|@font-face", CSS)


def colours(scheme: str) -> dict[str, str]:
    light, dark = CSS.split("/* Base elements")[0].split("@media screen and (prefers-color-scheme: dark)")
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
def test_text_has_enough_contrast(scheme: str) -> None:
    shades = colours(scheme)
    backgrounds = {
        "ink": ["paper", "surface", "sunken", "wash", "danger-wash"],
        "soft": ["paper", "surface", "sunken"],
        "accent": ["paper", "surface", "wash", "danger-wash"],
        "on-accent": ["accent", "accent-strong"],
        "warn": ["warn-wash", "paper", "surface"],
        "danger": ["paper", "surface"],
        "on-danger": ["danger"],
    }
    pairs = [(text, background) for text, several in backgrounds.items() for background in several]
    faint = [pair for pair in pairs if contrast(shades[pair[0]], shades[pair[1]]) < TEXT_CONTRAST]
    assert faint == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_categories_and_edges_have_enough_contrast(scheme: str) -> None:
    shades = colours(scheme)
    marks = ["edge", *(f"c{number}" for number in range(1, 8))]
    faint = [mark for mark in marks if contrast(shades[mark], shades["surface"]) < GRAPHIC_CONTRAST]
    assert faint == []


def test_a_browser_without_cookies_gets_an_explanation_and_no_redirect_loop(project: Project) -> None:
    visitor = Client(enforce_csrf_checks=True)
    token = visitor.get("/s/pets/").context["csrf_token"]
    blocked = Client(enforce_csrf_checks=True).post("/s/pets/join/", {"csrfmiddlewaretoken": str(token)})
    assert blocked.status_code == 403
    assert "Allow cookies for this site" in blocked.content.decode()
    outdated = visitor.post("/s/pets/join/", {"csrfmiddlewaretoken": "0" * 64})
    assert "Your page is out of date." in outdated.content.decode()
    assert not Worker.objects.exists()
