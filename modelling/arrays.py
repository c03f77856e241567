"""Where the arrays of a snapshot are kept: named by their own checksum, written whole or not at all.

An archive (.npz) holds each array once, under the hash of its content, and an index from names to hashes. What a step
left as it was in the refit before it is not stored again: the archive names the one it builds on.
"files": under the data folder, by temporary name, fsync and rename. "table": in the database, for several machines.
"""

import hashlib
import io
import json
import os
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from django.conf import settings
from numpy.typing import NDArray

from annotation import faults
from annotation.models import Project
from modelling.models import ModelSnapshot, SnapshotArrays

Arrays = dict[str, NDArray]

QUICK = 1  # of zlib: floats hardly become smaller with more work
INDEX, BASE = "index", "base"
UNREADABLE = (OSError, KeyError, ValueError, EOFError, zipfile.BadZipFile, zlib.error)


class Damaged(Exception):
    """The arrays of a snapshot are missing or are not those that were written."""


@dataclass(frozen=True)
class Stored:
    """Where arrays are now: under their checksum, as a change of those under `base` where that is not empty."""

    checksum: str
    base: str


def save(project: Project, arrays: Arrays, base: str = "") -> Stored:
    """These arrays can now be loaded; what `base` has already is left out, if that is whole."""
    index = {name: fingerprint(array) for name, array in arrays.items()}
    checksum, known = checksum_of(index), _marks_in(project, base)
    base = base if known else ""
    own = {mark: arrays[name] for name, mark in index.items() if mark not in known}
    if base != checksum:
        _store(project, checksum, _pack({INDEX: _words(index), BASE: _words(base), **own}))
    return Stored(checksum, base if base != checksum else "")


def _marks_in(project: Project, checksum: str) -> set[str]:
    """The contents that this archive holds itself; none if it cannot be read. Nothing is unpacked."""
    try:
        with zipfile.ZipFile(io.BytesIO(_read(project, checksum) if checksum else b"")) as archive:
            return {name.removesuffix(".npy") for name in archive.namelist()} - {INDEX, BASE}
    except (Damaged, *UNREADABLE):
        return set()


def load(project: Project, checksum: str) -> Arrays:
    """The arrays as they were saved; Damaged if a single number differs."""
    archive = _open(project, checksum)
    try:
        index, base = _index_of(archive), _unwords(archive[BASE])
        if base:
            archive = {**_open(project, base), **archive}
        arrays = {name: archive[mark] for name, mark in index.items()}
    except KeyError:  # something is missing, or another release wrote it
        raise Damaged(checksum) from None
    if checksum_of_arrays(arrays) != checksum:
        raise Damaged(checksum)
    return arrays


def remove(project: Project, checksum: str) -> None:
    """These arrays are gone, unless a version that still has its own began from them; then they go with the last."""
    whole = ModelSnapshot.objects.filter(project=project, pruned_at=None)
    gone = ModelSnapshot.objects.filter(project=project, checksum=checksum)
    for each in {checksum, *gone.values_list("base", flat=True)} - {""}:
        if not whole.filter(base=each).exists() and not whole.filter(checksum=each).exists():
            _remove(project, each)


def fingerprint(array: NDArray) -> str:
    """SHA-256 of an array's type, shape and numbers."""
    plain = np.ascontiguousarray(array)
    digest = hashlib.sha256(f"{plain.dtype.str}{array.shape}".encode())
    digest.update(plain.data if plain.size and plain.dtype.kind not in "U" else plain.tobytes())
    return digest.hexdigest()


def checksum_of_arrays(arrays: Arrays) -> str:
    """The checksum under which `save` would store these."""
    return checksum_of({name: fingerprint(array) for name, array in arrays.items()})


def checksum_of(index: dict[str, str]) -> str:
    """SHA-256 of names and contents: the same whatever was left out, and however the rest was compressed."""
    return hashlib.sha256("".join(f"{name} {index[name]}\n" for name in sorted(index)).encode()).hexdigest()


def remove_leftovers() -> int:
    """Drafts of writers that were killed are gone. Returns how many there were."""
    drafts = list((settings.DATA_DIR / "snapshots").glob("*/*.tmp"))
    for draft in drafts:
        if not _is_being_written(draft):
            draft.unlink(missing_ok=True)
    return len(drafts)


def _is_being_written(draft: Path) -> bool:
    """Whether the process in the draft's name lives, and is not this one, which writes nothing now."""
    writer = int(draft.suffixes[-2].removeprefix("."))
    try:
        os.kill(writer, 0)
    except OSError:
        return False
    return writer != os.getpid()


def _words(value: object) -> NDArray:
    return np.array(json.dumps(value))


def _unwords(array: NDArray) -> str:
    return str(json.loads(str(array)))


def _index_of(archive: Arrays) -> dict[str, str]:
    return dict(json.loads(str(archive[INDEX])))


def _pack(arrays: Arrays) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=QUICK) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, np.asanyarray(array), allow_pickle=False)
    return buffer.getvalue()


def _open(project: Project, checksum: str) -> Arrays:
    try:
        with np.load(io.BytesIO(_read(project, checksum)), allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except UNREADABLE:
        raise Damaged(checksum) from None


def _read(project: Project, checksum: str) -> bytes:
    if settings.SNAPSHOT_ARRAYS == "table":
        content = SnapshotArrays.objects.values_list("content", flat=True)
        row = content.filter(project=project, checksum=checksum).first()
        if row is None:
            raise Damaged(checksum)
        return bytes(row)
    return _path(project, checksum).read_bytes()


def _store(project: Project, checksum: str, content: bytes) -> None:
    if settings.SNAPSHOT_ARRAYS == "table":
        SnapshotArrays.objects.update_or_create(project=project, checksum=checksum, defaults={"content": content})
    else:
        _write(_path(project, checksum), content)


def _remove(project: Project, checksum: str) -> None:
    if settings.SNAPSHOT_ARRAYS == "table":
        SnapshotArrays.objects.filter(project=project, checksum=checksum).delete()
    else:
        _path(project, checksum).unlink(missing_ok=True)


def _path(project: Project, checksum: str) -> Path:
    return Path(settings.DATA_DIR) / "snapshots" / str(project.pk) / f"{checksum}.npz"


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_suffix(f".{os.getpid()}.tmp")
    try:
        _fill(draft, content)
        faults.hit("rename")
        draft.rename(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # the new name, too, survives a power cut
    finally:
        os.close(folder)


def _fill(draft: Path, content: bytes) -> None:
    with draft.open("wb") as file:
        faults.hit("write_tmp")
        file.write(content)
        file.flush()
        faults.hit("fsync")
        os.fsync(file.fileno())
