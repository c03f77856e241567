"""Tokens: shown once, kept as a fingerprint, never told again; and nothing more than their person may."""

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
from modelling.tokens import make_token
from tests.modelling.api.conftest import Script
from tests.modelling.api.rights import API

pytestmark = pytest.mark.django_db
SECRET = re.compile(r"concord_[a-z0-9]{8}_[A-Za-z0-9_-]{43}")
PROJECTS = "/api/v1/projects"
NEW = {"name": "nightly", "scope": "write", "project": "pets", "days": "30"}


def bearing(words: str) -> Client:
    return Client(headers={"authorization": f"Bearer {words}"})


@pytest.fixture
def browser_tab(project: Project, owner: User, log_in: Callable[[User], Client]) -> Client:
    return log_in(owner)


@pytest.fixture
def made(browser_tab: Client) -> str:
    """The words of a token, as the page shows them."""
    answer = browser_tab.post("/accounts/tokens/", NEW)
    assert answer.status_code == 200
    assert "no-store" in answer["Cache-Control"]
    return SECRET.search(answer.text)[0]


def test_a_new_token_opens_the_api_and_is_shown_only_once(browser_tab: Client, made: str) -> None:
    assert bearing(made).get(PROJECTS).json()["rows"][0]["slug"] == "pets"
    later = browser_tab.get("/accounts/tokens/").text
    assert not SECRET.search(later)
    assert made.rsplit("_", 1)[0][: len("concord_abcdefgh")] in later


def test_no_token_is_in_a_database_dump(browser_tab: Client, made: str) -> None:
    bearing(made).get(PROJECTS)
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
        bearing(made).get(f"{PROJECTS}/pets")
        bearing(made).get(f"{PROJECTS}/nothing")
        bearing(made[:-1]).get(PROJECTS)
    assert made.split("_", 2)[2][:20] not in caplog.text


def test_no_address_ever_tells_a_token_or_its_fingerprint(
    made: str, project: Project, admin_user: User, browser_tab: Client, log_in: Callable[[User], Client]
) -> None:
    """Read with the token itself, by its person's pages and by the administration."""
    token, staff = ApiToken.objects.get(), log_in(admin_user)
    api = [f"/{route.replace('<slug>', 'pets')}" for method, route in API if method == "GET" and route.count("<") < 2]
    answers = [bearing(made).get(address) for address in [*api, "/api/v1/", "/api/v1/openapi.json"]]
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
    ids=["revoked", "expired", "other words"],
)
def test_a_token_that_is_no_longer_good_opens_nothing(made: str, change: dict[str, object]) -> None:
    ApiToken.objects.update(**change)
    refused = bearing(made).get(PROJECTS)
    assert refused.status_code == 401
    assert refused["WWW-Authenticate"] == "Bearer"
    assert refused.json()["code"] == "no_token"


def test_a_closed_account_takes_its_tokens_along(made: str, owner: User) -> None:
    User.objects.filter(pk=owner.pk).update(is_active=False)
    assert bearing(made).get(PROJECTS).status_code == 401


def test_a_person_who_left_a_project_cannot_reach_it_by_an_old_token(made: str, owner: User) -> None:
    Membership.objects.filter(user=owner).delete()
    assert bearing(made).get(f"{PROJECTS}/pets").status_code == 404


@pytest.mark.parametrize("words", ["", "x", "concord_abcdefgh_", "concord_abcdefgh_" + "é" * 43, "a b", "\x7f" * 300])
def test_words_that_are_no_token_are_refused_quietly(words: str, project: Project) -> None:
    assert bearing(words).get(PROJECTS).status_code == 401


def test_another_scheme_or_a_cookie_opens_nothing(made: str, browser_tab: Client) -> None:
    assert browser_tab.get(PROJECTS).status_code == 401
    for header in (made, f"Token {made}", f"Basic {made}"):
        assert Client(headers={"authorization": header}).get(PROJECTS).status_code == 401


def test_a_viewers_token_cannot_write_whatever_its_scope(viewer: User, script: Script) -> None:
    client = script(viewer, scope="write")
    assert client.get(f"{PROJECTS}/pets/items").status_code == 200
    body = {"items": [{"key": "new", "text": "New."}]}
    assert client.post(f"{PROJECTS}/pets/items", body, content_type="application/json").status_code == 403


def test_a_revoked_token_stays_revoked_and_only_its_person_can_do_it(
    browser_tab: Client, made: str, analyst: User, log_in: Callable[[User], Client]
) -> None:
    token = ApiToken.objects.get()
    assert log_in(analyst).post(f"/accounts/tokens/{token.pk}/revoke/").status_code == 404
    assert bearing(made).get(PROJECTS).status_code == 200
    assert browser_tab.post(f"/accounts/tokens/{token.pk}/revoke/").status_code == 302
    browser_tab.post(f"/accounts/tokens/{token.pk}/revoke/")
    assert bearing(made).get(PROJECTS).status_code == 401
    assert [entry.action for entry in token.project.audit.all()].count("revoked an API token") == 1


def test_an_administrator_can_revoke_anybodys_token(
    made: str, admin_user: User, log_in: Callable[[User], Client]
) -> None:
    chosen = {"action": "revoke", "_selected_action": [ApiToken.objects.get().pk]}
    log_in(admin_user).post("/admin/modelling/apitoken/", chosen)
    assert bearing(made).get(PROJECTS).status_code == 401


def test_the_page_says_when_a_token_was_last_used(browser_tab: Client, made: str) -> None:
    unused = '<span class="muted">never</span>'
    assert unused in browser_tab.get("/accounts/tokens/").text
    bearing(made).get(PROJECTS)
    assert ApiToken.objects.get().last_used_at is not None
    assert unused not in browser_tab.get("/accounts/tokens/").text


@pytest.mark.parametrize(
    "wrong", [{"name": ""}, {"scope": "root"}, {"days": "99999"}, {"project": "elsewhere"}, {"name": "x" * 61}]
)
def test_a_token_that_cannot_be_made_is_refused_in_words(
    wrong: dict[str, str], browser_tab: Client, stranger: User
) -> None:
    answer = browser_tab.post("/accounts/tokens/", NEW | wrong)
    assert answer.status_code == 422
    assert 'class="error"' in answer.text
    assert not ApiToken.objects.exists()


def test_two_tokens_never_share_words_or_prefix(owner: User) -> None:
    made = [make_token(user=owner, name="n", scope="read", days=1) for _ in range(50)]
    assert len({words for _token, words in made}) == len({token.prefix for token, _words in made}) == 50
