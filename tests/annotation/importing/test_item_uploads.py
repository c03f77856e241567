"""Uploading a file of items: what is refused at once, and the preview that has to be confirmed."""

import io
import os
import stat
import zipfile
from pathlib import Path

import pytest
from django.test import Client

from annotation.importing import pending_uploads
from annotation.importing.item_files import read_items
from annotation.importing.items import import_items
from annotation.models import AuditEntry, Membership, Project, User
from tests.helpers.imports import pending_files, upload, write

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

GOOD = b"key,text,group\nk1,Cats purr.,cats\nk2,Dogs bark.,dogs\n"
PNG = b"\x89PNG\r\n\x1a\n" + bytes(64)


def confirm(client: Client, project: Project, ticket: str):
    return client.post(f"/projects/{project.slug}/items/import/", {"ticket": ticket})


def archive(name: str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as written:
        written.writestr(name, "key,text")
    return file.getvalue()


@pytest.mark.parametrize(
    "content", [PNG, archive("a.csv"), b"PK\x03\x04damaged", b"%PDF-1.7\n", b"\x1f\x8b\x08" + bytes(20)]
)
def test_binary_files_are_rejected_by_content(empty: Project, olga: Client, content: bytes) -> None:
    response = upload(olga, empty, "items", content, name="items.csv")
    assert response.status_code == 415
    assert "CSV UTF-8" in response.content.decode()


def test_a_file_over_the_size_limit_is_rejected(empty: Project, olga: Client, settings) -> None:
    settings.IMPORT_MAX_BYTES = 1000
    response = upload(olga, empty, "items", "key,text\n" + "k,x\n" * 500)
    assert response.status_code == 413
    assert not pending_files()


def test_a_content_length_over_the_limit_is_rejected_before_the_body_is_read(empty: Project, owner: User) -> None:
    class Unreadable(io.RawIOBase):
        def read(self, size: int = -1) -> bytes:
            raise AssertionError("the body was read")

    strict = Client(enforce_csrf_checks=True)
    strict.force_login(owner)
    response = strict.generic(
        "POST",
        "/projects/empty/items/import/",
        CONTENT_LENGTH=500_000_000,
        **{"wsgi.input": Unreadable(), "CONTENT_TYPE": "multipart/form-data; boundary=x"},
    )
    assert response.status_code == 413


def test_too_many_rows_are_rejected(empty: Project, olga: Client, settings) -> None:
    settings.IMPORT_MAX_ROWS = 10
    response = upload(olga, empty, "items", "key,text\n" + "".join(f"k{n},x\n" for n in range(11)))
    assert response.status_code == 413
    assert "more than 10 rows" in response.content.decode()


@pytest.mark.parametrize("name", ["../../etc/x.csv", "x" * 300, "a\r\nX-Evil: 1.csv", "\u202ecsv.exe", "picture.png"])
def test_the_uploaded_file_name_is_never_used(empty: Project, olga: Client, name: str) -> None:
    response = upload(olga, empty, "items", GOOD, name=name)
    assert response.status_code == 200
    (pending,) = pending_files()
    assert pending.name.isalnum()
    assert len(pending.name) == 32
    assert name not in response.content.decode()
    pending_uploads.delete_upload(pending.name)


def test_a_post_without_an_uploaded_file_is_rejected(empty: Project, olga: Client) -> None:
    for data in ({}, {"file": "http://169.254.169.254/"}, {"url": "file:///etc/passwd"}):
        response = olga.post("/projects/empty/items/import/", data)
        assert response.status_code == 422
        assert "No file was chosen." in response.content.decode()


def test_a_script_gets_problem_json(empty: Project, olga: Client) -> None:
    response = upload(olga, empty, "items", b"key,text\nk1,\n", HTTP_ACCEPT="application/problem+json")
    assert response["Content-Type"] == "application/problem+json"
    assert response.json()["status"] == response.status_code == 422
    assert response.json()["problems"] == [{"line": 2, "column": "text", "message": "This cell is empty.", "count": 1}]


def test_nothing_is_written_until_the_preview_is_confirmed(empty: Project, olga: Client) -> None:
    preview = upload(olga, empty, "items", GOOD)
    assert preview.status_code == 200
    assert "Cats purr." in preview.content.decode()
    assert not empty.items.exists()
    (pending,) = pending_files()
    assert stat.S_IMODE(pending.stat().st_mode) == 0o600
    done = confirm(olga, empty, preview.context["ticket"])
    assert (done.status_code, done["Location"]) == (302, "/projects/empty/items/")
    assert empty.items.count() == 2
    assert not pending_files()
    assert AuditEntry.objects.filter(project=empty, user__username="olga", action="imported items").count() == 1


def test_a_second_confirmation_is_rejected_and_adds_nothing(empty: Project, olga: Client) -> None:
    ticket = upload(olga, empty, "items", GOOD).context["ticket"]
    confirm(olga, empty, ticket)
    assert confirm(olga, empty, ticket).status_code == 409
    assert empty.items.count() == 2


@pytest.mark.parametrize("case", ["another person", "another project", "a forged ticket", "the other kind of file"])
def test_a_preview_can_only_be_confirmed_by_its_user_in_its_project(
    empty: Project, project: Project, olga: Client, case: str
) -> None:
    ticket = upload(olga, empty, "items", GOOD).context["ticket"]
    address = "/projects/empty/items/import/"
    if case == "another person":
        colleague = User.objects.create_user("colleague")
        Membership.objects.create(project=empty, user=colleague, role="owner")
        olga.force_login(colleague)
    elif case == "another project":
        address = f"/projects/{project.slug}/items/import/"
    elif case == "a forged ticket":
        ticket = ticket[:-2] + "xx"
    else:
        address = "/projects/empty/judgements/import/"
    assert olga.post(address, {"ticket": ticket}).status_code == 409
    assert not empty.items.exists()


def test_a_changed_project_gets_a_new_preview(empty: Project, olga: Client, tmp_path: Path) -> None:
    ticket = upload(olga, empty, "items", GOOD).context["ticket"]
    import_items(project=empty, user=None, rows=read_items(write(tmp_path, GOOD.replace(b"purr", b"meow"))))
    again = confirm(olga, empty, ticket)
    assert again.status_code == 200
    assert "has changed since the preview" in again.content.decode()
    assert again.context["plan"].counts["corrected"] == 1
    confirm(olga, empty, again.context["ticket"])
    assert empty.items.get(key="k1", active=True).text == "Cats purr."


def test_a_file_without_changes_cannot_be_confirmed(empty: Project, olga: Client, tmp_path: Path) -> None:
    import_items(project=empty, user=None, rows=read_items(write(tmp_path, GOOD)))
    page = upload(olga, empty, "items", GOOD).content.decode()
    assert "There is nothing to import." in page
    assert 'name="import"' not in page


def test_unconfirmed_uploads_are_deleted_after_a_day(empty: Project, olga: Client) -> None:
    upload(olga, empty, "items", GOOD)
    (old,) = pending_files()
    os.utime(old, (0, 0))
    upload(olga, empty, "items", GOOD)
    assert old not in pending_files()
    assert len(pending_files()) == 1
    pending_uploads.delete_upload(pending_files()[0].name)


def test_viewers_and_forged_forms_are_rejected(project: Project, viewer: User, owner: User) -> None:
    client = Client()
    client.force_login(viewer)
    assert upload(client, project, "items", GOOD).status_code == 403
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(owner)
    assert upload(strict, project, "items", GOOD).status_code == 403
