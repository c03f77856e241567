"""Invitations: one link, one person, one week; the only way to an account for somebody from outside."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.core import mail
from django.db import connection
from django.test import Client
from django.utils import timezone

from annotation import letters, services, throttling
from annotation.models import AuditEntry, Invitation, Membership, Project, User
from tests.conftest import make_user

pytestmark = pytest.mark.django_db

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


def test_an_owner_gets_a_link_that_is_shown_once_and_kept_nowhere(project: Project, owner: User, log_in: LogIn) -> None:
    client = log_in(owner)
    page = client.post(INVITE, {"role": "viewer"}).text
    token = page.split("/invitations/")[1].split("/")[0]
    assert client.get(f"/invitations/{token}/").status_code == 200
    assert token not in client.get("/projects/pets/members/").text
    with connection.cursor() as cursor:
        cursor.execute("SELECT * FROM annotation_invitation")
        assert token not in repr(cursor.fetchall())


def test_the_link_goes_by_letter_where_there_is_an_address(
    project: Project, owner: User, log_in: LogIn, settings
) -> None:
    settings.PUBLIC_ADDRESS = "https://study.example.org"
    page = log_in(owner).post(INVITE, {"role": "analyst", "email": "nina@example.org"})
    letters._sender.submit(int).result(timeout=30)
    [letter] = mail.outbox
    assert letter.to == ["nina@example.org"]
    [line] = [line for line in letter.body.splitlines() if "://" in line]
    assert line.startswith("https://study.example.org/invitations/")
    assert line in page.text
    assert "nina@example.org" in log_in(owner).get("/projects/pets/members/").text


def test_somebody_with_an_account_joins_with_one_click(project: Project, link: str, log_in: LogIn) -> None:
    client = log_in(make_user("nora"))
    assert "Join as nora" in client.get(link).text
    assert role(project, "nora") is None
    assert client.post(link)["Location"] == "/projects/pets/"
    assert role(project, "nora") == "analyst"
    assert Invitation.objects.get().used_by.username == "nora"
    assert AuditEntry.objects.first().action == "accepted an invitation"


def test_somebody_without_one_makes_it_and_is_logged_in(project: Project, link: str, client: Client) -> None:
    page = client.get(link).text
    assert f"/accounts/login/?next={link}" in page
    assert client.post(link, ACCOUNT)["Location"] == "/projects/pets/"
    assert client.get("/projects/pets/").status_code == 200
    assert role(project, "nina") == "analyst"
    assert not User.objects.get(username="nina").is_staff


def test_a_link_works_once_and_then_is_gone_in_words(project: Project, link: str, client: Client, log_in) -> None:
    """S4."""
    log_in(make_user("nora")).post(link)
    for answer in (client.get(link), client.post(link, ACCOUNT), log_in(make_user("ned")).post(link)):
        assert answer.status_code == 410
        assert "cannot be used any more" in answer.text
    assert not User.objects.filter(username="nina").exists()
    assert role(project, "ned") is None


def test_a_used_link_leads_whoever_used_it_to_the_project_and_nobody_else(
    project: Project, link: str, log_in: LogIn
) -> None:
    nora = make_user("nora")
    client = log_in(nora)
    for answer in (client.post(link), client.get(link), client.post(link)):
        assert (answer.status_code, answer["Location"]) == (302, "/projects/pets/")
    assert Membership.objects.filter(project=project, user=nora).count() == 1
    assert log_in(make_user("ned")).get(link).status_code == 410
    Membership.objects.filter(user=nora).delete()
    assert client.get(link).status_code == 410, "who is no member any more stays out"


def test_a_link_that_has_run_out_or_was_withdrawn_is_gone(
    project: Project, owner: User, link: str, client: Client, log_in: LogIn
) -> None:
    other = f"/invitations/{services.invite(project=project, user=owner, role='viewer')}/"
    withdrawn = Invitation.objects.get(role="viewer")
    answer = log_in(owner).post(f"{INVITE}{withdrawn.pk}/withdraw/", follow=True)
    assert "withdrawn" in answer.text
    Invitation.objects.filter(role="analyst").update(expires_at=timezone.now() - timedelta(seconds=1))
    assert [client.get(where).status_code for where in (link, other)] == [410, 410]


def test_a_link_dies_with_the_right_of_who_sent_it(project: Project, owner: User, link: str, client: Client) -> None:
    Membership.objects.create(project=project, user=make_user("ina"), role="owner")
    Membership.objects.filter(user=owner).update(role="analyst")
    assert client.post(link, ACCOUNT).status_code == 410
    assert not User.objects.filter(username="nina").exists()


def test_a_member_keeps_their_role_and_the_link(project: Project, owner: User, link: str, log_in: LogIn) -> None:
    answer = log_in(owner).post(link, follow=True)
    assert "a member of this project already" in answer.text
    assert role(project, "olga") == "owner"
    assert Invitation.objects.usable().exists()


def test_an_unknown_link_is_not_found_and_makes_no_account(client: Client) -> None:
    assert client.get("/invitations/no-such-thing/").status_code == 404
    assert client.post("/invitations/no-such-thing/", ACCOUNT).status_code == 404
    assert not User.objects.exists()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"username": "OLGA"}, "already exists"),
        ({"username": "two words"}, "valid username"),
        ({"password1": "short", "password2": "short"}, "too short"),
        ({"password1": "password1234", "password2": "password1234"}, "too common"),
        ({"password2": "another one altogether"}, "didn’t match"),
        ({"email": "nonsense"}, "valid email"),
    ],
)
def test_a_bad_name_or_password_is_refused_and_the_link_still_works(
    change: dict[str, str], words: str, link: str, client: Client
) -> None:
    answer = client.post(link, ACCOUNT | change)
    assert answer.status_code == 422
    assert words in answer.text
    assert client.post(link, ACCOUNT).status_code == 302


@pytest.mark.usefixtures("no_minute_passes")
def test_nobody_tries_names_at_the_door_for_long(link: str, client: Client) -> None:
    answers = {client.post(link, ACCOUNT | {"password2": ""}).status_code for _ in range(throttling.ACCEPTANCES)}
    assert answers == {422}
    assert client.post(link, ACCOUNT).status_code == 429


@pytest.mark.usefixtures("no_minute_passes")
def test_an_owner_does_not_become_a_sender_of_spam(project: Project, owner: User, log_in: LogIn, monkeypatch) -> None:
    monkeypatch.setattr(throttling, "INVITATIONS", 1)
    client = log_in(owner)
    answers = [client.post(INVITE, {"role": "viewer"}).status_code for _ in range(2)]
    assert answers == [200, 429]


@pytest.mark.parametrize("fields", [{"role": "king"}, {"role": "viewer", "email": "nonsense"}, {}])
def test_a_role_or_address_that_cannot_be_is_refused(fields: dict[str, str], project: Project, owner, log_in) -> None:
    assert log_in(owner).post(INVITE, fields).status_code == 422
    assert not Invitation.objects.exists()


def test_an_invitation_of_another_project_is_not_found(link: str, stranger: User, log_in: LogIn) -> None:
    pk = Invitation.objects.get().pk
    assert log_in(stranger).post(f"/projects/elsewhere/invitations/{pk}/withdraw/").status_code == 404
    assert Invitation.objects.usable().exists()
