"""Bulk invitations: one link for each person, which works once."""

import csv
import io
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import DatabaseError, transaction
from django.test import Client
from django.utils import timezone

from annotation import services
from annotation.forms.recruitment import MAX_LABELS, read_labels
from annotation.models import AuditEntry, PlatformIdentity, Project, User, Worker, WorkerInvitation
from annotation.platforms import Identity
from annotation.services.participation.arrival import enrol_arrived
from annotation.services.participation.worker_invitations import invite_workers
from annotation.services.privacy.retention import erase_worker_data
from tests.annotation.platforms.studies import CODES, join, recruit
from tests.helpers.concurrency import run_concurrently

pytestmark = pytest.mark.django_db
LogIn = Callable[[User], Client]
PAGE = "/projects/pets/people/"


@pytest.fixture
def invited_project(project: Project) -> Project:
    recruit(project, "invited")
    return project


def invite(client: Client, labels: str, **more: object) -> dict[str, str]:
    """Invite these people over the page; return the path of each link by label."""
    response = client.post(PAGE, {"labels": labels, "days": "7", **more})
    assert response.status_code == 200, response.content.decode()
    rows = csv.DictReader(io.StringIO(response.content.decode("utf-8-sig")))
    return {row["label"]: row["link"].removeprefix("http://testserver") for row in rows}


@pytest.fixture
def links(invited_project: Project, owner: User, log_in: LogIn) -> dict[str, str]:
    return invite(log_in(owner), "ada@example.org\nben@example.org\n")


def test_each_person_gets_a_link_that_cannot_be_guessed(links: dict[str, str]) -> None:
    tokens = [link.split("invitation=")[1] for link in links.values()]
    assert list(links) == ["ada@example.org", "ben@example.org"]
    assert len(set(tokens)) == 2
    assert all(len(token) == 32 for token in tokens)  # 24 random bytes
    stored = str(list(WorkerInvitation.objects.values()))
    assert not [token for token in tokens if token in stored]


def test_a_link_lets_one_person_join_and_resumes_on_any_device(links: dict[str, str]) -> None:
    link, first, second = links["ada@example.org"], Client(), Client()
    join(first, link)
    assert second.get(link).status_code == 302, "the same person on another device"
    assert second.get("/s/pets/task/").status_code == 200
    assert Worker.objects.count() == 1
    assert PlatformIdentity.objects.get().external_id == "ada@example.org"
    states = dict(WorkerInvitation.objects.values_list("label", "used_at"))
    assert states["ada@example.org"]
    assert states["ben@example.org"] is None


def test_reading_the_welcome_page_does_not_use_the_link(links: dict[str, str], client: Client) -> None:
    assert client.get(links["ada@example.org"]).status_code == 200
    assert not WorkerInvitation.objects.exclude(used_at=None).exists()
    assert not Worker.objects.exists()


@pytest.mark.parametrize(
    "query", ["", "?invitation=", "?invitation=guess", "?invitation=a&invitation=b", "?PROLIFIC_PID=1"]
)
def test_no_one_takes_part_without_a_link(invited_project: Project, client: Client, query: str) -> None:
    response = client.get(f"/s/pets/{query}")
    assert response.status_code == 403
    assert "personal link" in response.content.decode()
    assert client.post("/s/pets/join/", {"consent": "on"}).status_code == 400
    assert not Worker.objects.exists()


def test_a_link_of_another_study_is_refused(links: dict[str, str], owner: User, client: Client) -> None:
    other = services.create_project(owner=owner, slug="other", title="Other", state="open")
    recruit(other, "invited")
    token = links["ada@example.org"].split("?")[1]
    assert client.get(f"/s/other/?{token}").status_code == 403


def test_an_expired_link_is_refused_but_a_person_who_joined_continues(links: dict[str, str]) -> None:
    joined = Client()
    join(joined, links["ada@example.org"])
    WorkerInvitation.objects.update(expires_at=timezone.now() - timedelta(minutes=1))
    assert Client().get(links["ben@example.org"]).status_code == 410
    assert Client().get(links["ada@example.org"]).status_code == 302


def test_a_revoked_link_is_refused_even_between_welcome_and_consent(
    links: dict[str, str], owner: User, log_in: LogIn
) -> None:
    late = Client()
    arrival = late.get(links["ben@example.org"]).context["form"]["arrival"].value()
    joined = Client()
    join(joined, links["ada@example.org"])
    ben = WorkerInvitation.objects.get(label="ben@example.org")
    log_in(owner).post(f"{PAGE}revoke/", {"invitation": ben.pk})
    assert Client().get(links["ben@example.org"]).status_code == 410
    assert late.post("/s/pets/join/", {"arrival": arrival, "consent": "on"}).status_code == 410
    assert Worker.objects.count() == 1
    log_in(owner).post(f"{PAGE}revoke/")
    assert WorkerInvitation.objects.get(label="ada@example.org").state == "used", (
        "only unused links are revoked together"
    )


def test_everyone_is_invited_once_and_again_when_revoked(links: dict[str, str], owner: User, log_in: LogIn) -> None:
    client = log_in(owner)
    assert client.post(PAGE, {"labels": "ada@example.org", "days": "7"}).status_code == 422
    assert list(invite(client, "ada@example.org\ncy@example.org")) == ["cy@example.org"]
    client.post(f"{PAGE}revoke/")
    assert list(invite(client, "ada@example.org")) == ["ada@example.org"]
    logged = AuditEntry.objects.filter(user=owner).order_by("-pk").values_list("action", "details__invitations")
    assert list(logged[:3]) == [
        ("invited workers", 1), ("revoked invitations of workers", 3), ("invited workers", 1),
    ]  # fmt: skip


def test_the_outcome_earns_the_code_of_the_study(links: dict[str, str], client: Client) -> None:
    join(client, links["ada@example.org"])
    client.post("/s/pets/stop/")
    assert CODES["stopped"] in client.post("/s/pets/finish/", follow=True).content.decode()


def test_the_page_and_its_table_show_who_has_joined(links: dict[str, str], owner: User, log_in: LogIn) -> None:
    join(Client(), links["ada@example.org"])
    client = log_in(owner)
    rows = list(csv.DictReader(io.StringIO(client.get(f"{PAGE}invitations.csv").content.decode("utf-8-sig"))))
    assert {row["label"]: row["state"] for row in rows} == {"ada@example.org": "used", "ben@example.org": "unused"}
    page = client.get(PAGE)
    assert page.context["counts"] == [("not used", 1), ("used", 1), ("expired", 0), ("revoked", 0)]
    assert "invitation=" not in page.content.decode()
    assert "ada@example.org" in client.get("/projects/pets/participants/").content.decode()


def test_erasing_a_worker_erases_their_address_and_their_link(links: dict[str, str]) -> None:
    join(Client(), links["ada@example.org"])
    services.erase_worker(worker=Worker.objects.get(), user=None, remove_judgements=True)
    assert not WorkerInvitation.objects.filter(label="ada@example.org").exists()
    assert Client().get(links["ada@example.org"]).status_code == 410


def test_the_retention_period_erases_addresses(links: dict[str, str], invited_project: Project) -> None:
    join(Client(), links["ada@example.org"])
    erase_worker_data(invited_project)
    assert not WorkerInvitation.objects.exclude(label="").exists()


@pytest.mark.usefixtures("frozen_throttle_clock")
def test_opening_links_is_throttled_by_address(invited_project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("annotation.http.throttling.MAX_PERSONAL_LINKS", 3)
    statuses = [Client().get(f"/s/pets/?invitation=guess{n}").status_code for n in range(5)]
    assert statuses == [403, 403, 403, 429, 429]


@pytest.mark.usefixtures("frozen_throttle_clock")
def test_lists_are_throttled_by_owner(
    invited_project: Project, owner: User, log_in: LogIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("annotation.http.throttling.MAX_INVITATION_LISTS", 1)
    client = log_in(owner)
    assert client.post(PAGE, {"labels": "a", "days": "7"}).status_code == 200
    assert client.post(PAGE, {"labels": "b", "days": "7"}).status_code == 429


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("ada\n\n ben \n", ["ada", "ben"]),
        ("name;email\nAda;ada@x.org\nBen;ben@x.org", ["ada@x.org", "ben@x.org"]),
        ("ada@x.org,Ada\nben@x.org,Ben", ["ada@x.org", "ben@x.org"]),
        ('"Lovelace, Ada"\n', ["Lovelace, Ada"]),
        ("", []),
    ],
)
def test_lists_are_read_from_lines_and_columns(text: str, labels: list[str]) -> None:
    assert read_labels(text) == labels


def test_a_file_can_be_uploaded(invited_project: Project, owner: User, log_in: LogIn) -> None:
    file = SimpleUploadedFile("people.csv", "Email\nzoë@example.org\n".encode("cp1252"))
    assert list(invite(log_in(owner), "", file=file)) == ["zoë@example.org"]


@pytest.mark.parametrize(
    "form",
    [
        {"labels": "", "days": "7"},
        {"labels": "ada", "days": "0"},
        {"labels": "x" * 201, "days": "7"},
        {"labels": '"open', "days": "7"},
        {"labels": "\n".join(map(str, range(MAX_LABELS + 1))), "days": "7"},
    ],
)
def test_a_list_that_cannot_be_used_creates_nothing(
    invited_project: Project, owner: User, log_in: LogIn, form: dict[str, str]
) -> None:
    assert log_in(owner).post(PAGE, form).status_code == 422
    assert not WorkerInvitation.objects.exists()


@pytest.mark.both_databases
def test_the_same_label_twice_is_refused_by_the_database(invited_project: Project, owner: User) -> None:
    [(first, _token)] = invite_workers(project=invited_project, user=owner, labels=["ada"], days=7)
    with pytest.raises(DatabaseError), transaction.atomic():
        WorkerInvitation.objects.create(
            project=invited_project, label="ada", digest="0" * 64, expires_at=first.expires_at
        )


@pytest.mark.django_db(transaction=True)
@pytest.mark.both_databases
@pytest.mark.slow
def test_one_link_joined_on_ten_devices_at_once_is_one_worker(invited_project: Project, owner: User) -> None:
    invite_workers(project=invited_project, user=owner, labels=["ada"], days=7)
    identity = Identity("invited", "ada", verified=True)
    workers = run_concurrently([lambda: enrol_arrived(project=invited_project, identity=identity)] * 10)
    assert len({worker.pk for worker in workers}) == 1
    assert Worker.objects.count() == 1
