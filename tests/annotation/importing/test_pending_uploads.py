"""Uploads between preview and confirmation when several machines, each with its own data folder, serve the pages."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.utils import timezone

from annotation.importing import pending_uploads
from annotation.models import Project, UploadPiece, User

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

FILE = b"key,text\nk1,Cats purr.\nk2,Dogs bark.\n"


@pytest.fixture
def machines(settings: Any, tmp_path: Path) -> list[Path]:
    """The data folders of two machines; the pages run on the first one."""
    settings.FILE_STORAGE = "table"
    folders = [tmp_path / "one", tmp_path / "two"]
    settings.DATA_DIR = folders[0]
    return folders


def test_a_preview_on_one_machine_is_confirmed_on_another(
    machines: list[Path], settings: Any, project: Project, owner: User, log_in, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pending_uploads, "PIECE_BYTES", 10)
    client: Client = log_in(owner)
    address = f"/projects/{project.slug}/items/import/"
    page = client.post(address, {"file": SimpleUploadedFile("x.csv", FILE)})
    assert UploadPiece.objects.count() == 4
    settings.DATA_DIR = machines[1]
    ticket = {"ticket": page.context["ticket"]}
    assert client.post(address, ticket).status_code == 302
    assert project.items.filter(key__in=["k1", "k2"]).count() == 2
    assert not UploadPiece.objects.exists()
    settings.DATA_DIR = machines[0]  # still has its file
    assert "This upload has expired." in client.post(address, ticket).text


def test_uploads_in_the_database_are_deleted_after_a_day(machines: list[Path]) -> None:
    name = pending_uploads.store_upload(SimpleUploadedFile("x.csv", FILE))
    pending_uploads.delete_expired()
    assert pending_uploads.upload_path(name).read_bytes() == FILE
    UploadPiece.objects.update(stored_at=timezone.now() - timedelta(days=2))
    pending_uploads.delete_expired()
    assert not pending_uploads.upload_exists(name)
    pending_uploads.delete_upload(name)
    with pytest.raises(FileNotFoundError):
        pending_uploads.upload_path(name)
