"""Tokens: shown once, stored as a hash, and limited to the rights of their user."""

import io
import logging
import re
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.utils import timezone

from annotation.models import Membership, Project, User
from modelling.models import ApiToken
from modelling.web.api.tokens import create_token
from tests.modelling.web.api.conftest import Script
from tests.modelling.web.api.rights import API

pytestmark = pytest.mark.django_db
SECRET = re.compile(r"concord_[a-z0-9]{8}_[A-Za-z0-9_-]{43}")
PROJECTS = "/api/v1/projects"
NEW = {"name": "nightly", "scope": "write", "project": "pets", "days": "30"}


def client_with(secret: str) -> Client:
    return Client(headers={"authorization": f"Bearer {secret}"})


@pytest.fixture
def browser_tab(project: Project, owner: User, log_in: Callable[[User], Client]) -> Client:
    return log_in(owner)


@pytest.fixture
def made(browser_tab: Client) -> str:
    """The secret of a token, as the page shows it."""
    answer = browser_tab.post("/accounts/tokens/", NEW)
    assert answer.status_code == 200
    assert "no-store" in answer["Cache-Control"]
    return SECRET.search(answer.text)[0]


def test_a_new_token_works_and_is_shown_only_once(browser_tab: Client, made: str) -> None:
    assert client_with(made).get(PROJECTS).json()["rows"][0]["slug"] == "pets"
    later = browser_tab.get("/accounts/tokens/").text
    assert not SECRET.search(later)
    assert made.rsplit("_", 1)[0][: len("concord_abcdefgh")] in later


def test_no_token_is_in_a_database_dump(browser_tab: Client, made: str) -> None:
    client_with(made).get(PROJECTS)
    dumped = io.StringIO()
    call_command("dumpdata", stdout=dumped)
    secret = made.split("_", 2)[2]
    assert secret not in dumped.getvalue()
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            cursor.execute(f'SELECT * FROM "{table}"')
            assert secret not in repr(cursor.fetchall()), table


def test_no_token_is_in_a_log(made: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        client_with(made).get(f"{PROJECTS}/pets")
        client_with(made).get(f"{PROJECTS}/nothing")
        client_with(made[:-1]).get(PROJECTS)
    assert made.split("_", 2)[2][:20] not in caplog.text


def test_no_url_returns_a_token_or_its_hash(
    made: str, project: Project, admin_user: User, browser_tab: Client, log_in: Callable[[User], Client]
) -> None:
    """Checks the API, the user's pages and the admin."""
    token, staff = ApiToken.objects.get(), log_in(admin_user)
    api = [f"/{route.replace('<slug>', 'pets')}" for method, route in API if method == "GET" and route.count("<") < 2]
    answers = [client_with(made).get(address) for address in [*api, "/api/v1/", "/api/v1/openapi.json"]]
    answers += [browser_tab.get(address) for address in ("/accounts/tokens/", "/projects/pets/", "/projects/")]
    answers += [staff.get("/admin/modelling/apitoken/"), staff.get(f"/admin/modelling/apitoken/{token.pk}/change/")]
    assert len(answers) > 12
    for answer in answers:
        assert answer.status_code in (200, 404)
        assert made.split("_", 2)[2] not in answer.text
        assert token.digest not in answer.text


@pytest.mark.parametrize(
    "change",
    [
        {"revoked_at": timezone.now()},
        {"expires_at": timezone.now() - timedelta(seconds=1)},
        {"digest": "0" * 64},
    ],
    ids=["revoked", "expired", "wrong secret"],
)
def test_a_revoked_or_expired_token_is_refused(made: str, change: dict[str, object]) -> None:
    ApiToken.objects.update(**change)
    refused = client_with(made).get(PROJECTS)
    assert refused.status_code == 401
    assert refused["WWW-Authenticate"] == "Bearer"
    assert refused.json()["code"] == "no_token"


def test_tokens_of_a_closed_account_are_refused(made: str, owner: User) -> None:
    User.objects.filter(pk=owner.pk).update(is_active=False)
    assert client_with(made).get(PROJECTS).status_code == 401


def test_a_former_member_has_no_access_by_an_old_token(made: str, owner: User) -> None:
    Membership.objects.filter(user=owner).delete()
    assert client_with(made).get(f"{PROJECTS}/pets").status_code == 404


@pytest.mark.parametrize("secret", ["", "x", "concord_abcdefgh_", "concord_abcdefgh_" + "é" * 43, "a b", "\x7f" * 300])
def test_malformed_tokens_are_refused(secret: str, project: Project) -> None:
    assert client_with(secret).get(PROJECTS).status_code == 401


def test_other_schemes_and_cookies_are_refused(made: str, browser_tab: Client) -> None:
    assert browser_tab.get(PROJECTS).status_code == 401
    for header in (made, f"Token {made}", f"Basic {made}"):
        assert Client(headers={"authorization": header}).get(PROJECTS).status_code == 401


def test_a_write_token_of_a_viewer_cannot_write(viewer: User, script: Script) -> None:
    client = script(viewer, scope="write")
    assert client.get(f"{PROJECTS}/pets/items").status_code == 200
    body = {"items": [{"key": "new", "text": "New."}]}
    assert client.post(f"{PROJECTS}/pets/items", body, content_type="application/json").status_code == 403


def test_only_the_owner_revokes_a_token_and_it_stays_revoked(
    browser_tab: Client, made: str, analyst: User, log_in: Callable[[User], Client]
) -> None:
    token = ApiToken.objects.get()
    assert log_in(analyst).post(f"/accounts/tokens/{token.pk}/revoke/").status_code == 404
    assert client_with(made).get(PROJECTS).status_code == 200
    assert browser_tab.post(f"/accounts/tokens/{token.pk}/revoke/").status_code == 302
    browser_tab.post(f"/accounts/tokens/{token.pk}/revoke/")
    assert client_with(made).get(PROJECTS).status_code == 401
    assert [entry.action for entry in token.project.audit.all()].count("revoked an API token") == 1


def test_an_administrator_can_revoke_any_token(made: str, admin_user: User, log_in: Callable[[User], Client]) -> None:
    chosen = {"action": "revoke", "_selected_action": [ApiToken.objects.get().pk]}
    log_in(admin_user).post("/admin/modelling/apitoken/", chosen)
    assert client_with(made).get(PROJECTS).status_code == 401


def test_the_page_shows_the_last_use(browser_tab: Client, made: str) -> None:
    unused = '<span class="muted">never</span>'
    assert unused in browser_tab.get("/accounts/tokens/").text
    client_with(made).get(PROJECTS)
    assert ApiToken.objects.get().last_used_at is not None
    assert unused not in browser_tab.get("/accounts/tokens/").text


@pytest.mark.parametrize(
    "wrong", [{"name": ""}, {"scope": "root"}, {"days": "99999"}, {"project": "elsewhere"}, {"name": "x" * 61}]
)
def test_invalid_token_forms_are_refused_with_a_message(
    wrong: dict[str, str], browser_tab: Client, stranger: User
) -> None:
    answer = browser_tab.post("/accounts/tokens/", NEW | wrong)
    assert answer.status_code == 422
    assert 'class="error"' in answer.text
    assert not ApiToken.objects.exists()


def test_secrets_and_prefixes_are_unique(owner: User) -> None:
    made = [create_token(user=owner, name="n", scope="read", days=1) for _ in range(50)]
    assert len({secret for _token, secret in made}) == len({token.prefix for token, _secret in made}) == 50
