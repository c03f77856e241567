"""Where the arrays of a snapshot are kept: named by their own checksum, written whole or not at all.

"files": under the data folder, by temporary name, fsync and rename. "table": in the database, for several machines.
"""

import hashlib
import io
import os
from pathlib import Path

import numpy as np
from django.conf import settings
from numpy.typing import NDArray

from annotation.models import Project
from modelling.models import SnapshotArrays

Arrays = dict[str, NDArray]


class Damaged(Exception):
    """The arrays of a snapshot are missing or are not those that were written."""


def save(project: Project, arrays: Arrays) -> str:
    """The checksum under which these arrays can now be loaded."""
    content = _pack(arrays)
    checksum = hashlib.sha256(content).hexdigest()
    if settings.SNAPSHOT_ARRAYS == "table":
        SnapshotArrays.objects.get_or_create(project=project, checksum=checksum, defaults={"content": content})
    else:
        _write(_path(project, checksum), content)
    return checksum


def load(project: Project, checksum: str) -> Arrays:
    """The arrays as they were saved; Damaged if a single bit differs."""
    content = _read(project, checksum)
    if hashlib.sha256(content).hexdigest() != checksum:
        raise Damaged(checksum)
    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def _pack(arrays: Arrays) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


def _read(project: Project, checksum: str) -> bytes:
    if settings.SNAPSHOT_ARRAYS == "table":
        row = SnapshotArrays.objects.filter(project=project, checksum=checksum).first()
        if row is None:
            raise Damaged(checksum)
        return bytes(row.content)
    try:
        return _path(project, checksum).read_bytes()
    except FileNotFoundError:
        raise Damaged(checksum) from None


def _path(project: Project, checksum: str) -> Path:
    return settings.DATA_DIR / "snapshots" / str(project.pk) / f"{checksum}.npz"


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_suffix(f".{os.getpid()}.tmp")
    with draft.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    draft.rename(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # the new name, too, survives a power cut
    finally:
        os.close(folder)
