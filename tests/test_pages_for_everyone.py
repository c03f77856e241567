"""What every answer carries, and what people read when something is wrong."""

import json
import logging
from collections.abc import Callable

import pytest
from django.db import OperationalError
from django.test import Client, override_settings
from django.utils import timezone

from annotation.models import Project, User
from config import health
from config.logs import JsonFormatter
from modelling.models import UpdaterBeat
from tests.conftest import PASSWORD

pytestmark = pytest.mark.django_db

ADDRESSES = ["/", "/s/pets/", "/accounts/login/", "/nothing/", "/projects/pets/", "/projects/pets/items/"]


@pytest.mark.parametrize("address", ADDRESSES)
def test_every_page_has_a_strict_policy_and_its_own_id(
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


def test_a_page_with_pictures_lets_plotly_write_styles_and_nothing_more(
    project: Project, owner: User, log_in: Callable[[User], Client]
) -> None:
    policy = log_in(owner).get("/projects/pets/ranking/")["Content-Security-Policy"]
    parts = [part.strip() for part in policy.split(";")]
    assert "script-src 'self'" in parts
    assert "style-src 'self' 'unsafe-inline'" in parts
    assert policy.count("unsafe") == 1


def test_cookies_are_not_for_scripts_and_not_for_other_sites(project: Project, owner: User, client: Client) -> None:
    client.post("/s/pets/join/", {"consent": "on"})
    client.post("/accounts/login/", {"username": owner.username, "password": PASSWORD})
    client.get("/projects/new/")
    assert {"sessionid", "csrftoken", f"concord_worker_{project.pk}"} <= set(client.cookies)
    for cookie in client.cookies.values():
        assert cookie["httponly"]
        assert cookie["samesite"] == "Lax"


def test_a_page_that_is_not_there_says_what_to_do(client: Client) -> None:
    answer = client.get("/nothing/")
    assert answer.status_code == 404
    for words in ("There is nothing at this address.", "Nothing was lost.", answer["X-Request-ID"]):
        assert words in answer.text


def test_a_script_gets_the_same_as_problem_json(client: Client) -> None:
    answer = client.get("/nothing/", headers={"accept": "application/json"})
    assert answer["Content-Type"] == "application/problem+json"
    assert set(answer.json()) == {"type", "title", "status", "detail", "field", "request_id"}


def test_a_fault_of_ours_is_told_without_its_insides(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("annotation.views.judging.worker_of", lambda *args: {}["a secret"])
    answer = Client(raise_request_exception=False).get("/s/pets/")
    assert answer.status_code == 500
    assert "Something went wrong on our side." in answer.text
    assert "secret" not in answer.text
    assert "Traceback" not in answer.text


def test_a_database_that_is_away_is_503_with_a_time_to_come_back(project: Project, monkeypatch) -> None:
    def away(*args: object) -> None:
        raise OperationalError("database is locked at /some/path")

    monkeypatch.setattr("annotation.views.judging.worker_of", away)
    answer = Client(raise_request_exception=False).get("/s/pets/")
    assert (answer.status_code, answer["Retry-After"]) == (503, "10")
    assert "locked" not in answer.text
    assert "keep this page open" in answer.text


def test_an_unknown_host_is_refused(client: Client) -> None:
    assert client.get("/", headers={"host": "evil.example"}).status_code == 400


def test_five_wrong_passwords_lock_the_account_for_a_while_and_say_so(owner: User, client: Client) -> None:
    for _ in range(5):
        answer = client.post("/accounts/login/", {"username": owner.username, "password": "guess"})
    assert answer.status_code == 429
    assert answer["Retry-After"] == "900"
    locked = client.post("/accounts/login/", {"username": owner.username, "password": PASSWORD})
    assert locked.status_code == 429


def test_an_unknown_name_and_a_wrong_password_read_the_same(owner: User, client: Client) -> None:
    pages = [
        client.post("/accounts/login/", {"username": name, "password": "guess"}).text.replace(name, "")
        for name in (owner.username, "nobody")
    ]
    without_tokens = [page.split("csrfmiddlewaretoken")[0] for page in pages]
    assert without_tokens[0] == without_tokens[1]


def test_after_logging_in_one_stays_on_this_site(owner: User, client: Client) -> None:
    form = {"username": owner.username, "password": PASSWORD, "next": "//evil.example/"}
    assert client.post("/accounts/login/", form)["Location"] == "/projects/"


def test_health_is_honest(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    assert client.get("/healthz").json() == {"status": "ok"}
    assert client.get("/readyz").json() == {"status": "down", "down": ["updater"]}
    UpdaterBeat.objects.create(name="here", seen_at=timezone.now())
    assert client.get("/readyz").status_code == 200

    def broken() -> bool:
        raise OperationalError("password of the database")

    monkeypatch.setitem(health.PARTS, "database", broken)
    answer = client.get("/readyz")
    assert (answer.status_code, answer.json()) == (503, {"status": "down", "down": ["database"]})
    assert client.get("/healthz").status_code == 200


@override_settings(DATA_DIR="/nonexistent")
def test_a_data_folder_that_cannot_be_written_is_named(client: Client) -> None:
    assert "disk" in client.get("/readyz").json()["down"]


def test_logs_are_json_with_an_id_and_nothing_about_persons(
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
