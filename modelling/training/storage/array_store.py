"""Storage of snapshot arrays: named by their checksum, complete or absent.

An archive (.npz) holds each array under the hash of its content (floats uncompressed: they hardly compress) and an
index from names to hashes. Arrays that a step shares with its last refit are not stored again: the archive names the
refit's archive as its base. `FILE_STORAGE` is "files" (in the data folder) or "table" (in the database, for several
machines).
"""

import hashlib
import io
import json
import os
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from django.conf import settings
from django.utils.translation import gettext_lazy
from numpy.typing import NDArray

from annotation.models import Project
from annotation.storage import fault_injection
from annotation.storage.durable_files import write_durably
from modelling.models import ModelSnapshot, SnapshotArrays

Arrays = dict[str, NDArray]

COMPRESSION_LEVEL = 1
INDEX, BASE = "index", "base"
READ_ERRORS = (OSError, KeyError, ValueError, EOFError, zipfile.BadZipFile, zlib.error)


class DamagedArrays(Exception):
    """A snapshot's arrays are missing or differ from those that were written; `message` is shown on pages."""

    message = gettext_lazy("This version's model data can't be loaded right now.")


class EarlierRelease(DamagedArrays):
    """An earlier release wrote the arrays in a form that this one does not read."""

    message = gettext_lazy(
        "An earlier release of Concord made this version, and its model data cannot be read any more."
    )


@dataclass(frozen=True)
class StoredArrays:
    """The checksum of stored arrays and, if only the changes are stored, that of their base."""

    checksum: str
    base: str


def save(project: Project, arrays: Arrays, base: str = "") -> StoredArrays:
    """Store the arrays, leaving out those that the archive `base` contains."""
    index = {name: content_hash(array) for name, array in arrays.items()}
    checksum, known = _index_checksum(index), _stored_hashes(project, base)
    base = base if known else ""
    own = {digest: arrays[name] for name, digest in index.items() if digest not in known}
    if base != checksum:
        _store(project, checksum, _pack({INDEX: _to_json(index), BASE: _to_json(base), **own}))
    return StoredArrays(checksum, base if base != checksum else "")


def load(project: Project, checksum: str) -> Arrays:
    """Load stored arrays; raise DamagedArrays if any are missing or altered."""
    archive = _open(project, checksum)
    try:
        index, base = dict(_from_json(archive[INDEX])), str(_from_json(archive[BASE]))
        if base:
            archive = {**_open(project, base), **archive}
        arrays = {name: archive[digest] for name, digest in index.items()}
    except KeyError:  # something is missing, or another release wrote it
        raise DamagedArrays(checksum) from None
    if arrays_checksum(arrays) != checksum:
        raise DamagedArrays(checksum)
    return arrays


def remove(project: Project, checksum: str) -> None:
    """Delete the arrays of pruned versions, and their base when no other version needs it."""
    stored = ModelSnapshot.objects.filter(project=project, pruned_at=None)
    removed = ModelSnapshot.objects.filter(project=project, checksum=checksum)
    for each in {checksum, *removed.values_list("base", flat=True)} - {""}:
        if not stored.filter(base=each).exists() and not stored.filter(checksum=each).exists():
            _delete(project, each)


def remove_temporary_files() -> int:
    """Delete the temporary files of killed processes; return the number of temporary files found."""
    files = list((settings.DATA_DIR / "snapshots").glob("*/*.tmp"))
    for file in files:
        if not _is_being_written(file):
            file.unlink(missing_ok=True)
    return len(files)


def _is_being_written(file: Path) -> bool:
    """Whether the process named in the file's suffix is another one that is still alive."""
    writer = int(file.suffixes[-2].removeprefix("."))
    try:
        os.kill(writer, 0)
    except OSError:
        return False
    return writer != os.getpid()


# Checksums ----------------------------------------------------------------------------------------------------------


def content_hash(array: NDArray) -> str:
    """SHA-256 of an array's type, shape and content."""
    plain = np.ascontiguousarray(array)
    digest = hashlib.sha256(f"{plain.dtype.str}{array.shape}".encode())
    digest.update(plain.data if plain.size and plain.dtype.kind not in "U" else plain.tobytes())
    return digest.hexdigest()


def arrays_checksum(arrays: Arrays) -> str:
    """The checksum under which `save` stores these arrays, whatever their base and compression."""
    return _index_checksum({name: content_hash(array) for name, array in arrays.items()})


def _index_checksum(index: dict[str, str]) -> str:
    return hashlib.sha256("".join(f"{name} {index[name]}\n" for name in sorted(index)).encode()).hexdigest()


# Archives -----------------------------------------------------------------------------------------------------------


def _pack(arrays: Arrays) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=COMPRESSION_LEVEL) as archive:
        for name, array in arrays.items():
            info = zipfile.ZipInfo(f"{name}.npy")
            info.compress_type = zipfile.ZIP_STORED if array.dtype.kind == "f" else zipfile.ZIP_DEFLATED
            with archive.open(info, "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, np.asanyarray(array), allow_pickle=False)
    return buffer.getvalue()


def _open(project: Project, checksum: str) -> Arrays:
    try:
        with np.load(io.BytesIO(_read(project, checksum)), allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except READ_ERRORS:
        raise DamagedArrays(checksum) from None


def _stored_hashes(project: Project, checksum: str) -> set[str]:
    """The content hashes in an archive, read from its directory only; empty if it cannot be read."""
    try:
        with zipfile.ZipFile(io.BytesIO(_read(project, checksum) if checksum else b"")) as archive:
            return {name.removesuffix(".npy") for name in archive.namelist()} - {INDEX, BASE}
    except (DamagedArrays, *READ_ERRORS):
        return set()


def _to_json(value: object) -> NDArray:
    return np.array(json.dumps(value))


def _from_json(array: NDArray) -> Any:
    return json.loads(str(array))


# Files and rows -----------------------------------------------------------------------------------------------------


def _read(project: Project, checksum: str) -> bytes:
    if settings.FILE_STORAGE == "table":
        content = SnapshotArrays.objects.values_list("content", flat=True)
        row = content.filter(project=project, checksum=checksum).first()
        if row is None:
            raise DamagedArrays(checksum)
        return bytes(row)
    return _path(project, checksum).read_bytes()


def _store(project: Project, checksum: str, content: bytes) -> None:
    if settings.FILE_STORAGE == "table":
        SnapshotArrays.objects.update_or_create(project=project, checksum=checksum, defaults={"content": content})
    else:
        write_durably(_path(project, checksum), content, on_step=fault_injection.maybe_fail)


def _delete(project: Project, checksum: str) -> None:
    if settings.FILE_STORAGE == "table":
        SnapshotArrays.objects.filter(project=project, checksum=checksum).delete()
    else:
        _path(project, checksum).unlink(missing_ok=True)


def _path(project: Project, checksum: str) -> Path:
    return Path(settings.DATA_DIR) / "snapshots" / str(project.pk) / f"{checksum}.npz"
