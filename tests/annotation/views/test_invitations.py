"""Invitations: single-use links that expire after a week and can create an account."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.core import mail
from django.db import connection
from django.test import Client
from django.utils import timezone

from annotation import services
from annotation.http import throttling
from annotation.models import AuditEntry, Invitation, Membership, Project, User
from annotation.services import email
from tests.conftest import make_user

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

LogIn = Callable[[User], Client]
INVITE = "/projects/pets/invitations/"
ACCOUNT = {
    "username": "nina",
    "email": "nina@example.org",
    "password1": "nine green bottles on a wall",
    "password2": "nine green bottles on a wall",
}


@pytest.fixture
def link(project: Project, owner: User) -> str:
    return f"/invitations/{services.invite(project=project, user=owner, role='analyst')}/"


def role(project: Project, name: str) -> str | None:
    return Membership.objects.filter(project=project, user__username=name).values_list("role", flat=True).first()


def test_the_link_is_shown_once_and_not_stored(project: Project, owner: User, log_in: LogIn) -> None:
    client = log_in(owner)
    page = client.post(INVITE, {"role": "viewer"}).text
    token = page.split("/invitations/")[1].split("/")[0]
    assert client.get(f"/invitations/{token}/").status_code == 200
    assert token not in client.get("/projects/pets/members/").text
    with connection.cursor() as cursor:
        cursor.execute("SELECT * FROM annotation_invitation")
        assert token not in repr(cursor.fetchall())


def test_the_link_is_emailed_if_there_is_an_address(project: Project, owner: User, log_in: LogIn, settings) -> None:
    settings.PUBLIC_ADDRESS = "https://study.example.org"
    page = log_in(owner).post(INVITE, {"role": "analyst", "email": "nina@example.org"})
    email._executor.submit(int).result(timeout=120)
    [message] = mail.outbox
    assert message.to == ["nina@example.org"]
    [line] = [line for line in message.body.splitlines() if "://" in line]
    assert line.startswith("https://study.example.org/invitations/")
    assert line in page.text
    assert "nina@example.org" in log_in(owner).get("/projects/pets/members/").text


def test_a_user_with_an_account_joins_with_one_click(project: Project, link: str, log_in: LogIn) -> None:
    client = log_in(make_user("nora"))
    assert "Join as nora" in client.get(link).text
    assert role(project, "nora") is None
    assert client.post(link)["Location"] == "/projects/pets/"
    assert role(project, "nora") == "analyst"
    assert Invitation.objects.get().used_by.username == "nora"
    assert AuditEntry.objects.first().action == "accepted an invitation"


def test_a_visitor_creates_an_account_and_is_logged_in(project: Project, link: str, client: Client) -> None:
    page = client.get(link).text
    assert f"/accounts/login/?next={link}" in page
    assert client.post(link, ACCOUNT)["Location"] == "/projects/pets/"
    assert client.get("/projects/pets/").status_code == 200
    assert role(project, "nina") == "analyst"
    assert not User.objects.get(username="nina").is_staff


def test_a_link_works_only_once(project: Project, link: str, client: Client, log_in) -> None:
    log_in(make_user("nora")).post(link)
    for response in (client.get(link), client.post(link, ACCOUNT), log_in(make_user("ned")).post(link)):
        assert response.status_code == 410
        assert "no longer valid" in response.text
    assert not User.objects.filter(username="nina").exists()
    assert role(project, "ned") is None


def test_a_used_link_redirects_its_user_and_rejects_others(project: Project, link: str, log_in: LogIn) -> None:
    nora = make_user("nora")
    client = log_in(nora)
    for response in (client.post(link), client.get(link), client.post(link)):
        assert (response.status_code, response["Location"]) == (302, "/projects/pets/")
    assert Membership.objects.filter(project=project, user=nora).count() == 1
    assert log_in(make_user("ned")).get(link).status_code == 410
    Membership.objects.filter(user=nora).delete()
    assert client.get(link).status_code == 410, "a former member stays out"


def test_an_expired_or_withdrawn_link_is_gone(
    project: Project, owner: User, link: str, client: Client, log_in: LogIn
) -> None:
    other = f"/invitations/{services.invite(project=project, user=owner, role='viewer')}/"
    withdrawn = Invitation.objects.get(role="viewer")
    response = log_in(owner).post(f"{INVITE}{withdrawn.pk}/withdraw/", follow=True)
    assert "withdrawn" in response.text
    Invitation.objects.filter(role="analyst").update(expires_at=timezone.now() - timedelta(seconds=1))
    assert [client.get(url).status_code for url in (link, other)] == [410, 410]


def test_a_link_becomes_invalid_when_its_sender_is_no_longer_owner(
    project: Project, owner: User, link: str, client: Client
) -> None:
    Membership.objects.create(project=project, user=make_user("ina"), role="owner")
    Membership.objects.filter(user=owner).update(role="analyst")
    assert client.post(link, ACCOUNT).status_code == 410
    assert not User.objects.filter(username="nina").exists()


def test_a_member_keeps_their_role_and_the_link_stays_usable(
    project: Project, owner: User, link: str, log_in: LogIn
) -> None:
    response = log_in(owner).post(link, follow=True)
    assert "already a member of this study" in response.text
    assert role(project, "olga") == "owner"
    assert Invitation.objects.usable().exists()


def test_an_unknown_link_is_not_found_and_creates_no_account(client: Client) -> None:
    assert client.get("/invitations/no-such-thing/").status_code == 404
    assert client.post("/invitations/no-such-thing/", ACCOUNT).status_code == 404
    assert not User.objects.exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"username": "OLGA"}, "This username cannot be used."),
        ({"username": "two words"}, "valid username"),
        ({"password1": "short", "password2": "short"}, "too short"),
        ({"password1": "password1234", "password2": "password1234"}, "too common"),
        ({"password2": "another one altogether"}, "didn’t match"),
        ({"email": "nonsense"}, "valid email"),
    ],
)
def test_the_link_still_works_after_an_invalid_account(
    change: dict[str, str], message: str, link: str, client: Client
) -> None:
    response = client.post(link, ACCOUNT | change)
    assert response.status_code == 422
    assert message in response.text
    assert client.post(link, ACCOUNT).status_code == 302


@pytest.mark.usefixtures("frozen_throttle_clock")
def test_account_attempts_are_throttled(link: str, client: Client) -> None:
    statuses = {client.post(link, ACCOUNT | {"password2": ""}).status_code for _ in range(throttling.MAX_ACCEPTANCES)}
    assert statuses == {422}
    assert client.post(link, ACCOUNT).status_code == 429


@pytest.mark.usefixtures("frozen_throttle_clock")
def test_user_names_cannot_be_found_out_with_an_invitation(link: str, owner: User, monkeypatch) -> None:
    """The message does not confirm an account, and few names can be tried, from whatever address."""
    monkeypatch.setattr(throttling, "MAX_NEW_NAMES", 3)
    pages = [Client().post(link, ACCOUNT | {"username": "olga"}) for _ in range(4)]
    assert [page.status_code for page in pages] == [422, 422, 422, 429]
    assert "exists" not in pages[0].text
    assert "taken" not in pages[0].text


@pytest.mark.usefixtures("frozen_throttle_clock")
def test_invitations_are_throttled(project: Project, owner: User, log_in: LogIn, monkeypatch) -> None:
    monkeypatch.setattr(throttling, "MAX_INVITATIONS", 1)
    client = log_in(owner)
    statuses = [client.post(INVITE, {"role": "viewer"}).status_code for _ in range(2)]
    assert statuses == [200, 429]


@pytest.mark.parametrize("fields", [{"role": "king"}, {"role": "viewer", "email": "nonsense"}, {}])
def test_an_invalid_role_or_address_is_rejected(fields: dict[str, str], project: Project, owner, log_in) -> None:
    assert log_in(owner).post(INVITE, fields).status_code == 422
    assert not Invitation.objects.exists()


def test_an_invitation_of_another_project_is_not_found(link: str, stranger: User, log_in: LogIn) -> None:
    pk = Invitation.objects.get().pk
    assert log_in(stranger).post(f"/projects/elsewhere/invitations/{pk}/withdraw/").status_code == 404
    assert Invitation.objects.usable().exists()
