"""A copy of everything, taken while Concord runs: the database of one moment, the arrays it speaks of, the secret.

The copy has the layout of the data folder, so that restoring it is copying it back. It appears under its name only when
it is complete; its SHA256SUMS can be checked with `sha256sum -c`.
"""

import errno
import hashlib
import json
import os
import shutil
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from django.conf import settings
from django.db import connection

from annotation.models import EventHead
from modelling.models import ModelSnapshot
from modelling.snapshots import CODE_VERSION

Tell = Callable[[str, float], None]  # what is done, and which share of it

SQLITE, DUMP, SNAPSHOTS, SECRET = "concord.sqlite3", "concord.dump", "snapshots", "secret_key"
MANIFEST, SUMS = "manifest.json", "SHA256SUMS"
PAGES = 2048  # of the database at a time, between two words on the progress
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class NoBackup(Exception):
    """The backup was not made; the message says why and what is left."""


@dataclass(frozen=True)
class StoredFile:
    path: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """What a backup holds. `sequences` are each project's events that were stored before it began: all are in it."""

    code_version: str
    began_at: str
    seconds: float
    database: str
    sequences: dict[str, int]
    missing: list[str]
    secret: bool
    files: list[StoredFile]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def back_up(destination: Path, *, with_secret: bool = True, tell: Tell = lambda what, share: None) -> Manifest:
    """A complete copy is at `destination`; NoBackup, and nothing there, where that could not be done."""
    began, clock = datetime.now(UTC), time.monotonic()
    sequences = dict(EventHead.objects.order_by("project").values_list("project__slug", "sequence"))
    with _draft_of(destination) as draft:
        missing = _copy_everything(draft, tell)
        secret = with_secret and _copy_secret(draft)
        manifest = Manifest(
            code_version=CODE_VERSION,
            began_at=began.isoformat(timespec="seconds"),
            seconds=round(time.monotonic() - clock, 2),
            database=connection.vendor,
            sequences=sequences,
            missing=missing,
            secret=secret,
            files=list(_files_in(draft, tell)),
        )
        _seal(draft, manifest)
    return manifest


@contextmanager
def _draft_of(destination: Path) -> Iterator[Path]:
    """A folder beside the destination that takes its name in the end, or is gone."""
    draft = destination.with_name(f"{destination.name}.partial")
    _refuse_what_is_there(destination, draft)
    try:
        draft.mkdir(mode=0o700)
        yield draft
        draft.rename(destination)
        _sync(destination.parent)
    except (OSError, sqlite3.Error) as error:
        raise NoBackup(_words_for(error, destination)) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _refuse_what_is_there(destination: Path, draft: Path) -> None:
    if destination.exists():
        raise NoBackup(f"{destination} exists already. Nothing was written; choose another name.")
    if draft.exists():
        raise NoBackup(
            f"{draft} exists: another backup to this name is running, or one was killed. "
            "Nothing was written; if none is running, delete it and try again."
        )
    if not destination.parent.is_dir():
        raise NoBackup(f"There is no folder {destination.parent}. Nothing was written; make it first.")


def _words_for(error: Exception, destination: Path) -> str:
    full = isinstance(error, OSError) and error.errno in FULL
    if full or "disk is full" in str(error):
        return (
            f"The disk of {destination.parent} is full. What was written is deleted; make room or choose another disk."
        )
    return f"The backup failed: {error}. What was written is deleted; Concord itself was not touched."


# The database and its arrays


def _copy_everything(draft: Path, tell: Tell) -> list[str]:
    """Database and arrays; returns the arrays that the database speaks of and that are nowhere.

    Arrays are copied before the database, because old ones may be thrown away meanwhile, and again after it, because
    new ones may have come.
    """
    on_disk = settings.SNAPSHOT_ARRAYS == "files"
    if on_disk:
        _copy_arrays(draft, _arrays_on_disk(), tell)
    wanted = _copy_sqlite(draft, tell) if connection.vendor == "sqlite" else _dump_postgresql(draft, tell)
    if not on_disk:
        return []
    _copy_arrays(draft, wanted, tell)
    for left_over in _arrays_in(draft) - wanted:
        (draft / left_over).unlink()
    return sorted(wanted - _arrays_in(draft))


def _arrays_on_disk() -> set[str]:
    return _arrays_in(Path(settings.DATA_DIR))


def _arrays_in(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in (folder / SNAPSHOTS).glob("*/*.npz")}


def _copy_arrays(draft: Path, names: Iterable[str], tell: Tell) -> None:
    """Those that are there and not copied yet. A file of this name never changes: the name is its checksum."""
    left = sorted(name for name in names if not (draft / name).exists())
    for done, name in enumerate(left, start=1):
        target = draft / name
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            shutil.copyfile(Path(settings.DATA_DIR) / name, target)
        except FileNotFoundError:  # thrown away in this moment
            target.unlink(missing_ok=True)
        tell("arrays", done / len(left))


def _names_of(rows: Iterable[tuple[int, str, str]]) -> set[str]:
    """The files of these versions, and of those that they are stored as changes of."""
    return {
        f"{SNAPSHOTS}/{project}/{checksum}.npz" for project, own, base in rows for checksum in (own, base) if checksum
    }


def _copy_sqlite(draft: Path, tell: Tell) -> set[str]:
    """The database as it is in one moment, in one file, checked; returns the arrays it speaks of."""
    address = f"file:{quote(str(connection.settings_dict['NAME']))}?mode=ro"

    def told(status: int, remaining: int, total: int) -> None:
        tell("database", 1 - remaining / total if total else 1.0)

    with closing(sqlite3.connect(address, uri=True)) as live, closing(sqlite3.connect(draft / SQLITE)) as copy:
        live.execute("BEGIN")
        live.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()  # from here on one moment, whoever writes
        live.backup(copy, pages=PAGES, progress=told)
        copy.execute("PRAGMA journal_mode=DELETE")  # one file; Concord turns WAL on again when it opens it
        (found,) = copy.execute("PRAGMA integrity_check").fetchone()
        if found != "ok":
            raise NoBackup(f"The copy of the database is damaged: {found}. It is deleted; run `manage.py verify`.")
        rows = copy.execute("SELECT project_id, checksum, base FROM modelling_modelsnapshot WHERE pruned_at IS NULL")
        return _names_of(rows.fetchall())


def _dump_postgresql(draft: Path, tell: Tell) -> set[str]:
    """By pg_dump, which sees one moment as well; returns the arrays the database speaks of now."""
    tell("database", 0.0)
    given = connection.settings_dict
    names = {"HOST": "PGHOST", "PORT": "PGPORT", "USER": "PGUSER", "PASSWORD": "PGPASSWORD", "NAME": "PGDATABASE"}
    variables = {name: str(given[key]) for key, name in names.items() if given.get(key)}
    command = ["pg_dump", "--format=custom", "--no-owner", "--no-privileges", "--file", str(draft / DUMP)]
    try:
        subprocess.run(command, env={**os.environ, **variables}, check=True, capture_output=True, text=True)  # noqa: S603
    except FileNotFoundError:
        raise NoBackup("pg_dump is not installed here. Nothing was written; install PostgreSQL's client.") from None
    except subprocess.CalledProcessError as failed:
        if "No space left" in failed.stderr:
            raise OSError(errno.ENOSPC, "No space left on device") from failed
        raise NoBackup(f"pg_dump said: {failed.stderr.strip()}. What was written is deleted.") from failed
    tell("database", 1.0)
    return _names_of(ModelSnapshot.objects.filter(pruned_at=None).values_list("project", "checksum", "base"))


def _copy_secret(draft: Path) -> bool:
    """The secret key, if it is a file of the data folder and not a variable."""
    source, target = Path(settings.DATA_DIR) / SECRET, draft / SECRET
    if not source.exists():
        return False
    target.touch(mode=0o600)
    target.write_bytes(source.read_bytes())
    return True


# Checksums


def _files_in(draft: Path, tell: Tell) -> Iterator[StoredFile]:
    paths = sorted(path for path in draft.rglob("*") if path.is_file())
    for done, path in enumerate(paths, start=1):
        _sync(path)
        yield StoredFile(str(path.relative_to(draft)), path.stat().st_size, _sha256(path))
        tell("checksums", done / len(paths))


def _seal(draft: Path, manifest: Manifest) -> None:
    """The manifest, and everything's checksums in the form that `sha256sum -c` reads; all of it on the disk."""
    words = json.dumps(manifest.as_dict(), indent=1, ensure_ascii=False) + "\n"
    (draft / MANIFEST).write_text(words, encoding="utf-8")
    sums = {file.path: file.sha256 for file in manifest.files} | {MANIFEST: _sha256(draft / MANIFEST)}
    (draft / SUMS).write_text("".join(f"{sums[path]}  {path}\n" for path in sorted(sums)), encoding="utf-8")
    for path in (draft / MANIFEST, draft / SUMS, draft):
        _sync(path)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
