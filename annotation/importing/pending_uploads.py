"""Store an upload between preview and confirmation, in a private file that only the uploader can use for a day."""

import os
import secrets
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core import signing
from django.core.files.uploadedfile import UploadedFile
from django.utils.translation import gettext_lazy as _

from annotation.importing.problems import ImportFileError
from annotation.models import Project, User

DAY = 24 * 3600
SALT = "annotation.importing.pending_uploads"


class UploadExpired(ImportFileError):
    """The upload was imported already, is too old, or belongs to another user."""

    status = 409
    title = _("This upload has expired.")
    detail = _(
        "It has already been imported, or it is more than a day old. Check the study; if rows are missing, upload the "
        "file again."
    )


def store_upload(upload: "UploadedFile[bytes]") -> str:
    """Write the upload to a new private file and return its random name; the uploaded file name is never used."""
    name = secrets.token_hex(16)
    descriptor = os.open(_folder() / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        for chunk in upload.chunks():
            file.write(chunk)
    return name


def upload_path(name: str) -> Path:
    return _folder() / name


def delete_upload(name: str) -> None:
    upload_path(name).unlink(missing_ok=True)


def sign_ticket(name: str, *, project: Project, user: User, kind: str, basis: str, columns: dict[str, Any]) -> str:
    """Sign the upload's name, the uses of its columns and the basis of its preview for this user and project."""
    content = {"name": name, "basis": basis, "columns": columns, "for": [kind, project.pk, user.pk]}
    return signing.dumps(content, salt=SALT, compress=True)


def load_ticket(signed: str, *, project: Project, user: User, kind: str) -> dict[str, Any]:
    """Return `name`, `columns` and `basis` of an upload that this user previewed in this project."""
    try:
        ticket: dict[str, Any] = signing.loads(signed, salt=SALT, max_age=DAY)
    except signing.BadSignature:
        raise UploadExpired from None
    if ticket["for"] != [kind, project.pk, user.pk] or not upload_path(ticket["name"]).is_file():
        raise UploadExpired
    return ticket


def delete_expired() -> None:
    """Delete uploads that were not confirmed within a day."""
    for path in _folder().iterdir():
        with suppress(FileNotFoundError):
            if path.stat().st_mtime < time.time() - DAY:
                path.unlink()


def _folder() -> Path:
    folder: Path = settings.DATA_DIR / "imports"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder
