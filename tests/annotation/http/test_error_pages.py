"""Headers of every response, error pages, health checks and logs."""

import json
import logging
from collections.abc import Callable

import pytest
from django.db import OperationalError
from django.test import Client, override_settings
from django.utils import timezone

from annotation.models import Project, User
from config.monitoring import health
from config.monitoring.json_logging import JsonFormatter
from modelling.models import UpdaterBeat
from tests.conftest import PASSWORD

pytestmark = pytest.mark.django_db

ADDRESSES = [
    "/", "/s/pets/", "/accounts/login/", "/nothing/", "/projects/pets/", "/projects/pets/items/", "/api/v1/",
    "/projects/pets/ranking/",
]  # fmt: skip


@pytest.mark.parametrize("address", ADDRESSES)
def test_every_page_has_a_strict_csp_and_a_request_id(
    address: str, project: Project, owner: User, log_in: Callable[[User], Client]
) -> None:
    answer = log_in(owner).get(address, follow=True)
    policy = answer["Content-Security-Policy"]
    for part in ("default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'"):
        assert part in policy
    assert "unsafe" not in policy
    assert answer["X-Frame-Options"] == "DENY"
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert len(answer["X-Request-ID"]) == 12
    assert "<script>" not in answer.text
    assert 'style="' not in answer.text


def test_a_form_over_the_limit_gets_a_page_and_one_line_in_the_log(
    project: Project, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    answer = client.post("/s/pets/join/", {"consent": "x" * 1_500_000})
    assert answer.status_code == 413
    assert "That was too long: the limit is 1000 kB." in answer.text
    assert "Nothing was changed." in answer.text
    lines = [JsonFormatter().format(record) for record in caplog.records if "RequestDataTooBig" in record.name]
    assert len(lines) == 1
    assert "Traceback" not in lines[0]


def test_cookies_are_http_only_and_same_site(project: Project, owner: User, client: Client) -> None:
    client.post("/s/pets/join/", {"consent": "on"})
    client.post("/accounts/login/", {"username": owner.username, "password": PASSWORD})
    client.get("/projects/new/")
    assert {"sessionid", "csrftoken", f"concord_worker_{project.pk}"} <= set(client.cookies)
    for cookie in client.cookies.values():
        assert cookie["httponly"]
        assert cookie["samesite"] == "Lax"


@pytest.mark.parametrize("address", ["/projects/", "/projects/pets/", "/projects/pets/members/", "/accounts/password/"])
def test_private_pages_are_not_stored_by_browsers_and_proxies(
    address: str, project: Project, owner: User, log_in: Callable[[User], Client]
) -> None:
    assert "no-store" in log_in(owner).get(address)["Cache-Control"]


def test_dashboards_are_revalidated_by_the_same_browser_only(
    project: Project, owner: User, log_in: Callable[[User], Client]
) -> None:
    assert log_in(owner).get("/projects/pets/ranking/")["Cache-Control"] == "private, no-cache"


def test_404_says_what_to_do(client: Client) -> None:
    answer = client.get("/nothing/")
    assert answer.status_code == 404
    for text in ("There is no page at this address.", "Nothing was changed.", answer["X-Request-ID"]):
        assert text in answer.text


def test_scripts_get_problem_json(client: Client) -> None:
    answer = client.get("/nothing/", headers={"accept": "application/json"})
    assert answer["Content-Type"] == "application/problem+json"
    assert set(answer.json()) == {"type", "title", "status", "detail", "field", "request_id"}


def test_scripts_get_the_allowed_methods_of_an_address(client: Client) -> None:
    addresses = {
        "/api/v1/projects": "GET, POST",
        "/api/v1/projects/pets/judgements/import": "POST",
        "/api/v1/openapi.json": "GET, HEAD",
    }
    for address, allowed in addresses.items():
        response = client.put(address)
        assert (response.status_code, response["Content-Type"]) == (405, "application/problem+json")
        assert response["Allow"] == allowed
        assert response.json()["detail"] == f"Nothing was changed. Allowed methods: {allowed}."


def test_500_reveals_no_details(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("annotation.views.judging.read_arrival", lambda *args: {}["a secret"])
    answer = Client(raise_request_exception=False).get("/s/pets/")
    assert answer.status_code == 500
    assert "Something went wrong on our side." in answer.text
    assert "secret" not in answer.text
    assert "Traceback" not in answer.text


def test_an_unavailable_database_is_503_with_retry_after(project: Project, monkeypatch) -> None:
    def unavailable(*args: object) -> None:
        raise OperationalError("database is locked at /some/path")

    monkeypatch.setattr("annotation.views.judging.read_arrival", unavailable)
    answer = Client(raise_request_exception=False).get("/s/pets/")
    assert (answer.status_code, answer["Retry-After"]) == (503, "10")
    assert "locked" not in answer.text
    assert "keep this page open" in answer.text


def test_an_unknown_host_is_refused(client: Client) -> None:
    assert client.get("/", headers={"host": "evil.example"}).status_code == 400


def test_five_wrong_passwords_lock_the_account(owner: User, client: Client) -> None:
    for _ in range(5):
        answer = client.post("/accounts/login/", {"username": owner.username, "password": "guess"})
    assert answer.status_code == 429
    assert answer["Retry-After"] == "900"
    locked = client.post("/accounts/login/", {"username": owner.username, "password": PASSWORD})
    assert locked.status_code == 429


def test_an_unknown_name_and_a_wrong_password_get_the_same_page(owner: User, client: Client) -> None:
    pages = [
        client.post("/accounts/login/", {"username": name, "password": "guess"}).text.replace(name, "")
        for name in (owner.username, "nobody")
    ]
    without_tokens = [page.split("csrfmiddlewaretoken")[0] for page in pages]
    assert without_tokens[0] == without_tokens[1]


def test_login_does_not_redirect_to_another_site(owner: User, client: Client) -> None:
    form = {"username": owner.username, "password": PASSWORD, "next": "//evil.example/"}
    assert client.post("/accounts/login/", form)["Location"] == "/projects/"


def test_health_checks_report_what_is_down(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    assert client.get("/healthz").json() == {"status": "ok"}
    assert client.get("/readyz").json() == {"status": "down", "down": ["updater"]}
    UpdaterBeat.objects.create(name="here", seen_at=timezone.now())
    assert client.get("/readyz").status_code == 200

    def broken() -> bool:
        raise OperationalError("password of the database")

    monkeypatch.setitem(health.CHECKS, "database", broken)
    answer = client.get("/readyz")
    assert (answer.status_code, answer.json()) == (503, {"status": "down", "down": ["database"]})
    assert client.get("/healthz").status_code == 200


@override_settings(DATA_DIR="/nonexistent")
def test_a_read_only_data_folder_is_reported(client: Client) -> None:
    assert "disk" in client.get("/readyz").json()["down"]


def test_logs_are_json_without_personal_data(
    project: Project, owner: User, caplog: pytest.LogCaptureFixture, log_in
) -> None:
    worker_code = "w0rkerc0de"
    with caplog.at_level(logging.INFO, logger="concord.request"):
        log_in(owner).get(f"/projects/pets/workers/{worker_code}/?PROLIFIC_PID=5f00canary")
    record = next(record for record in caplog.records if record.name == "concord.request")
    line = JsonFormatter().format(record)
    assert json.loads(line)["path"] == "/projects/pets/workers/*/"
    for private in (worker_code, "5f00canary", owner.username):
        assert private not in line


def test_a_log_message_cannot_forge_a_line() -> None:
    record = logging.LogRecord("x", logging.INFO, "", 0, 'one\n{"level": "forged"}', (), None)
    assert "\n" not in JsonFormatter().format(record)
