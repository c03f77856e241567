"""An upload between its preview and its confirmation: a private file that only the same person can use, for a day."""

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

from annotation.importing.problems import ImportRefused
from annotation.models import Project, User

DAY = 24 * 3600
SALT = "annotation.importing.holding"


class NotHeld(ImportRefused):
    """The file was used, is too old, or belongs to somebody else."""

    status = 409
    title = _("This upload is no longer waiting to be confirmed.")
    detail = _(
        "It was imported already, or is more than a day old. Look at the project; if rows are missing, upload again."
    )


def keep(upload: "UploadedFile[bytes]") -> str:
    """The name of a new private file with these bytes. The name that came with the upload is not used."""
    name = secrets.token_hex(16)
    descriptor = os.open(_folder() / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        for chunk in upload.chunks():
            file.write(chunk)
    return name


def path_of(name: str) -> Path:
    return _folder() / name


def drop(name: str) -> None:
    path_of(name).unlink(missing_ok=True)


def ticket(name: str, *, project: Project, user: User, kind: str, basis: str) -> str:
    """What the page carries: the file's name and what was previewed, signed for this person and project."""
    return signing.dumps({"name": name, "basis": basis, "for": [kind, project.pk, user.pk]}, salt=SALT)


def redeem(signed: str, *, project: Project, user: User, kind: str) -> dict[str, Any]:
    """The file's name and what its preview was based on, if this person previewed such a file for this project."""
    try:
        held: dict[str, Any] = signing.loads(signed, salt=SALT, max_age=DAY)
    except signing.BadSignature:
        raise NotHeld from None
    if held["for"] != [kind, project.pk, user.pk] or not path_of(held["name"]).is_file():
        raise NotHeld
    return held


def forget_old() -> None:
    """Files that nobody confirmed within a day are gone."""
    for path in _folder().iterdir():
        with suppress(FileNotFoundError):
            if path.stat().st_mtime < time.time() - DAY:
                path.unlink()


def _folder() -> Path:
    folder: Path = settings.DATA_DIR / "imports"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder
