"""Redirects, methods, sessions, log-in, errors and logs, for every address at once where that is possible."""

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.hashers import get_hasher
from django.core.files.uploadedfile import SimpleUploadedFile
from django.http import HttpRequest
from django.test import Client

from annotation.models import Project, User
from config.monitoring.json_logging import JsonFormatter
from tests.conftest import PASSWORD
from tests.test_access import ROUTES, address

pytestmark = pytest.mark.django_db

ELSEWHERE = [
    "//evil.example", "///evil.example", "////evil.example", "https://evil.example", "http://evil.example",
    "https:evil.example", "http:evil.example", "https:/evil.example", "https:///evil.example", "\\\\evil.example",
    "/\\evil.example", "\\/evil.example", "/\\/evil.example", "//\\evil.example", "https://testserver@evil.example",
    "https://testserver:pass@evil.example", "//testserver@evil.example", "https://testserver.evil.example",
    "https://evil.example/testserver", "https://evil.example#testserver", "javascript:alert(1)",
    "JaVaScRiPt:alert(1)", "data:text/html,x", "vbscript:x", "\thttps://evil.example", "\t//evil.example",
    "/\t/evil.example", "/\n/evil.example", "\x00//evil.example", "//xn--evl-3qa.example", "//evil。example",
    "https://[::ffff:127.0.0.1]/", "//0x7f000001/", "ftp://evil.example",
]  # fmt: skip
DEFAULT_NAMES = ["admin", "root", "owner", "argilla", "label-studio", "test", "user", "demo", "concord", "guest"]
DEFAULT_PASSWORDS = ["", "admin", "password", "1234", "12345678", "owner.apikey", "changeme", "concord", "secret"]


@pytest.mark.parametrize("target", ELSEWHERE)
def test_a_log_in_never_leads_to_another_site(target: str, owner: User, client: Client) -> None:
    client.get("/accounts/login/", {"next": target})
    answer = client.post("/accounts/login/", {"username": owner.username, "password": PASSWORD, "next": target})
    assert answer["Location"] == "/projects/"


@pytest.mark.parametrize("route", ROUTES)
def test_trace_and_an_overridden_method_change_nothing(route: str, project: Project, olga: Client) -> None:
    Client().post("/s/pets/join/", {"consent": "on"})
    where = address(route, project)
    traced = olga.generic("TRACE", where, headers={"x-canary": "5f00canary"})
    assert traced.status_code in (302, 404, 405)
    assert "5f00canary" not in traced.text
    answer = olga.get(where, headers={"x-http-method-override": "DELETE", "x-method-override": "DELETE"})
    assert answer.status_code == olga.get(where).status_code


def test_no_default_account_can_log_in(db: None, client: Client) -> None:
    for name in DEFAULT_NAMES:
        for password in DEFAULT_PASSWORDS:
            assert not client.login(request=HttpRequest(), username=name, password=password)
    assert User.objects.count() == 0


def test_a_session_id_is_renewed_at_log_in_and_dead_after_log_out(owner: User, client: Client) -> None:
    client.get("/accounts/login/")
    before = client.session.session_key
    client.post("/accounts/login/", {"username": owner.username, "password": PASSWORD})
    cookie = client.cookies["sessionid"].value
    assert cookie != before
    replayed = Client()
    replayed.cookies["sessionid"] = cookie
    assert replayed.get("/projects/").status_code == 200
    client.post("/accounts/logout/")
    assert replayed.get("/projects/").status_code == 302


def test_the_sessions_of_a_closed_account_are_dead(owner: User, olga: Client) -> None:
    assert olga.get("/projects/").status_code == 200
    User.objects.filter(pk=owner.pk).update(is_active=False)
    assert olga.get("/projects/").status_code == 302


def test_an_unknown_name_costs_as_much_as_a_wrong_password(
    owner: User, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time of a log-in is that of the password hash, so both must compute it equally often."""
    hasher, computed = type(get_hasher()), list[str]()
    encode: Callable[..., str] = hasher.encode

    def counted(self: Any, password: str, salt: str, *more: Any) -> str:
        computed.append(password)
        return encode(self, password, salt, *more)

    monkeypatch.setattr(hasher, "encode", counted)
    for name in (owner.username, "nobody"):
        computed.clear()
        client.post("/accounts/login/", {"username": name, "password": "guess"})
        assert computed == ["guess"], name


class Failing:
    """Middleware that makes every view fail."""

    def __init__(self, get_response: Callable[..., Any]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> Any:
        return self.get_response(request)

    def process_view(self, request: HttpRequest, *args: Any) -> None:
        raise RuntimeError("the password is 5f00canary, see /srv/secret.py")


def test_an_error_in_any_view_reveals_nothing(project: Project, owner: User, settings: Any) -> None:
    Client().post("/s/pets/join/", {"consent": "on"})
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, f"{__name__}.Failing"]
    client = Client(raise_request_exception=False)
    client.force_login(owner)
    for route in ROUTES:
        answer = client.get(address(route, project))
        text = answer.text
        assert answer.status_code == 500, route
        assert not [word for word in ("5f00canary", "secret.py", "Traceback", "RuntimeError", "Django") if word in text]
        assert answer["X-Request-ID"] in text or route.startswith("api/"), route
        assert "Server" not in answer.headers


def test_no_log_line_has_an_id_a_password_a_cookie_or_a_text(
    project: Project, owner: User, caplog: pytest.LogCaptureFixture
) -> None:
    canaries = {"pid": "5f00canary00canary00cana", "password": "canary-password", "note": "canary note"}
    with caplog.at_level(logging.DEBUG):
        client = Client()
        client.get("/s/pets/", dict.fromkeys(["PROLIFIC_PID", "STUDY_ID", "SESSION_ID"], canaries["pid"]))
        client.post("/s/pets/join/", {"consent": "on"})
        pair = client.get("/s/pets/task/").json()["pairs"][0]["assignment"]
        answer = {"uuid": "00000000-0000-4000-8000-000000000001", "assignment": pair, "choice": "left"}
        answer["note"] = canaries["note"]
        assert client.post("/s/pets/judgements/", answer, content_type="application/json").status_code == 201
        client.post("/accounts/login/", {"username": owner.username, "password": canaries["password"]})
        client.get("/projects/", headers={"authorization": "Bearer canary-token"})
    lines = [JsonFormatter().format(record) for record in caplog.records]
    assert lines
    secrets = [*canaries.values(), "canary-token", *(cookie.value for cookie in client.cookies.values())]
    assert [line for line in lines for secret in secrets if secret in line] == []
    assert all(json.loads(line) for line in lines)


def test_the_api_reference_is_cached_and_uploads_are_limited(
    project: Project, olga: Client, monkeypatch: pytest.MonkeyPatch, frozen_throttle_clock: None
) -> None:
    assert "max-age=300" in olga.get("/api/v1/")["Cache-Control"]
    monkeypatch.setattr("annotation.http.throttling.MAX_IMPORTS", 2)
    file = {"file": SimpleUploadedFile("items.csv", b"key,text\none,First.\ntwo,Second.\n")}
    statuses = []
    for _ in range(3):
        file["file"].seek(0)
        statuses.append(olga.post("/projects/pets/items/import/", file).status_code)
    assert statuses == [200, 200, 429]
