"""Store an upload between preview and confirmation, in a private file that only the uploader can use for a day.

If several machines serve the pages (FILE_STORAGE is "table"), the database holds the upload, and each machine restores
the file when it needs it.
"""

import os
import secrets
import time
from collections.abc import Iterable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core import signing
from django.core.files.uploadedfile import UploadedFile
from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from annotation.importing.problems import ImportFileError
from annotation.models import Project, UploadPiece, User

DAY = 24 * 3600
PIECE_BYTES = 1 << 20
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
    """Store the upload under a new random name; the uploaded file name is never used."""
    name = secrets.token_hex(16)
    if settings.FILE_STORAGE == "table":
        with transaction.atomic():
            for number, content in enumerate(iter(lambda: upload.read(PIECE_BYTES), b"")):
                UploadPiece.objects.create(name=name, number=number, content=content)
    else:
        _write(_folder() / name, upload.chunks())
    return name


def upload_path(name: str) -> Path:
    """The path of an uploaded file, restored from the database if stored there; FileNotFoundError if it was deleted."""
    path = _folder() / name
    if settings.FILE_STORAGE == "table" and not path.exists():
        if not upload_exists(name):
            raise FileNotFoundError(name)
        pieces = UploadPiece.objects.filter(name=name).order_by("number").values_list("content", flat=True)
        draft = path.with_name(f"{name}.{secrets.token_hex(4)}")
        _write(draft, (bytes(piece) for piece in pieces.iterator(chunk_size=1)))
        draft.rename(path)
    return path


def upload_exists(name: str) -> bool:
    if settings.FILE_STORAGE == "table":
        return UploadPiece.objects.filter(name=name).exists()
    return upload_path(name).is_file()


def delete_upload(name: str) -> None:
    UploadPiece.objects.filter(name=name).delete()
    (_folder() / name).unlink(missing_ok=True)


def _write(path: Path, chunks: Iterable[bytes]) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        for chunk in chunks:
            file.write(chunk)


def sign_ticket(name: str, *, project: Project, user: User, kind: str, basis: str, columns: dict[str, Any]) -> str:
    """Sign the upload's name, column uses and preview basis for this user and project."""
    content = {"name": name, "basis": basis, "columns": columns, "for": [kind, project.pk, user.pk]}
    return signing.dumps(content, salt=SALT, compress=True)


def load_ticket(signed: str, *, project: Project, user: User, kind: str) -> dict[str, Any]:
    """Return `name`, `columns` and `basis` of an upload that this user previewed in this project."""
    try:
        ticket: dict[str, Any] = signing.loads(signed, salt=SALT, max_age=DAY)
    except signing.BadSignature:
        raise UploadExpired from None
    if ticket["for"] != [kind, project.pk, user.pk] or not upload_exists(ticket["name"]):
        raise UploadExpired
    return ticket


def delete_expired() -> None:
    """Delete uploads that were not confirmed within a day."""
    UploadPiece.objects.filter(stored_at__lt=timezone.now() - timedelta(seconds=DAY)).delete()
    for path in _folder().iterdir():
        with suppress(FileNotFoundError):
            if path.stat().st_mtime < time.time() - DAY:
                path.unlink()


def _folder() -> Path:
    folder: Path = settings.DATA_DIR / "imports"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder
