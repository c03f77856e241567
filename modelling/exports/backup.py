"""Back up a running installation: a consistent copy of the database, its array files and the secret key.

The copy has the layout of the data folder, so that restoring means copying it back. It appears under its name only
when it is complete; `sha256sum -c` checks its SHA256SUMS.
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
from annotation.storage.durable_files import publish, sync
from modelling.models import ModelSnapshot
from modelling.training.snapshots import CODE_VERSION

ReportProgress = Callable[[str, float], None]  # name of the step, share done

SQLITE, DUMP, SNAPSHOTS = "concord.sqlite3", "concord.dump", "snapshots"
SECRET, CHECKPOINT_KEY = "secret_key", "checkpoint_key"
MANIFEST, CHECKSUMS = "manifest.json", "SHA256SUMS"
DATABASE_PAGES = 2048  # copied between two progress reports
DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class BackupError(Exception):
    """No backup was made. The message says why and what to do."""


@dataclass(frozen=True)
class StoredFile:
    path: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """Contents of a backup; `sequences` holds each project's last event when it began; later events may be missing."""

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


def back_up(
    destination: Path, *, with_secret: bool = True, report: ReportProgress = lambda what, share: None
) -> Manifest:
    """Write a complete copy to `destination`; on BackupError nothing is left there."""
    began, clock = datetime.now(UTC), time.monotonic()
    sequences = dict(EventHead.objects.order_by("project").values_list("project__slug", "sequence"))
    with _draft_folder(destination) as draft:
        missing = _copy_everything(draft, report)
        secret = with_secret and _copy_secrets(draft)
        manifest = Manifest(
            code_version=CODE_VERSION,
            began_at=began.isoformat(timespec="seconds"),
            seconds=round(time.monotonic() - clock, 2),
            database=connection.vendor,
            sequences=sequences,
            missing=missing,
            secret=secret,
            files=list(_checked_files(draft, report)),
        )
        _seal(draft, manifest)
    return manifest


@contextmanager
def _draft_folder(destination: Path) -> Iterator[Path]:
    """Provide a temporary folder that is renamed to the destination on success and removed on failure."""
    draft = destination.with_name(f"{destination.name}.partial")
    _check_destination(destination, draft)
    try:
        draft.mkdir(mode=0o700)
        yield draft
        publish(draft, destination)
    except (OSError, sqlite3.Error) as error:
        raise BackupError(_failure_message(error, destination)) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _check_destination(destination: Path, draft: Path) -> None:
    if destination.exists():
        raise BackupError(f"{destination} already exists. Nothing was written; choose another name.")
    if draft.exists():
        raise BackupError(
            f"{draft} already exists: another backup to this name is running or was interrupted. "
            "Nothing was written; if none is running, delete the folder and try again."
        )
    if not destination.parent.is_dir():
        raise BackupError(f"There is no folder {destination.parent}. Nothing was written; create it first.")


def _failure_message(error: Exception, destination: Path) -> str:
    full = isinstance(error, OSError) and error.errno in DISK_FULL
    if full or "disk is full" in str(error):
        return f"The disk of {destination.parent} is full. The incomplete copy was deleted; free some space."
    return f"The backup failed: {error}. The incomplete copy was deleted; Concord's own data are unchanged."


# Database and arrays


def _copy_everything(draft: Path, report: ReportProgress) -> list[str]:
    """Copy database and arrays; return the array files that the database names but that are missing.

    Arrays are copied before the database, because old ones may be pruned in the meantime, and again after it, because
    new ones may have been added.
    """
    on_disk = settings.FILE_STORAGE == "files"
    if on_disk:
        _copy_arrays(draft, _arrays_on_disk(), report)
    referenced = _copy_sqlite(draft, report) if connection.vendor == "sqlite" else _dump_postgresql(draft, report)
    if not on_disk:
        return []
    _copy_arrays(draft, referenced, report)
    for unused in _arrays_in(draft) - referenced:
        (draft / unused).unlink()
    return sorted(referenced - _arrays_in(draft))


def _arrays_on_disk() -> set[str]:
    return _arrays_in(Path(settings.DATA_DIR))


def _arrays_in(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in (folder / SNAPSHOTS).glob("*/*.npz")}


def _copy_arrays(draft: Path, names: Iterable[str], report: ReportProgress) -> None:
    """Copy existing files that have not been copied yet. They never change: each is named by its checksum."""
    left = sorted(name for name in names if not (draft / name).exists())
    for done, name in enumerate(left, start=1):
        target = draft / name
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            shutil.copyfile(Path(settings.DATA_DIR) / name, target)
        except FileNotFoundError:  # pruned meanwhile
            target.unlink(missing_ok=True)
        report("arrays", done / len(left))


def _array_files(rows: Iterable[tuple[int, str, str]]) -> set[str]:
    """List the array files of these versions and of the base versions that they store only differences from."""
    return {
        f"{SNAPSHOTS}/{project}/{checksum}.npz" for project, own, base in rows for checksum in (own, base) if checksum
    }


def _copy_sqlite(draft: Path, report: ReportProgress) -> set[str]:
    """Copy a consistent state of the database into one checked file; return the array files it names."""
    address = f"file:{quote(str(connection.settings_dict['NAME']))}?mode=ro"

    def report_copied(status: int, remaining: int, total: int) -> None:
        report("database", 1 - remaining / total if total else 1.0)

    with closing(sqlite3.connect(address, uri=True)) as live, closing(sqlite3.connect(draft / SQLITE)) as copy:
        live.execute("BEGIN")
        live.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()  # the read transaction begins here
        live.backup(copy, pages=DATABASE_PAGES, progress=report_copied)
        copy.execute("PRAGMA journal_mode=DELETE")  # a single file; Concord switches WAL on again when it opens it
        (found,) = copy.execute("PRAGMA integrity_check").fetchone()
        if found != "ok":
            raise BackupError(f"The copy of the database is damaged: {found}. It was deleted; run `manage.py verify`.")
        rows = copy.execute("SELECT project_id, checksum, base FROM modelling_modelsnapshot WHERE pruned_at IS NULL")
        return _array_files(rows.fetchall())


def _dump_postgresql(draft: Path, report: ReportProgress) -> set[str]:
    """Dump with pg_dump, which also sees a consistent state; return the array files the database names now."""
    report("database", 0.0)
    database = connection.settings_dict
    names = {"HOST": "PGHOST", "PORT": "PGPORT", "USER": "PGUSER", "PASSWORD": "PGPASSWORD", "NAME": "PGDATABASE"}
    variables = {name: str(database[key]) for key, name in names.items() if database.get(key)}
    command = ["pg_dump", "--format=custom", "--no-owner", "--no-privileges", "--file", str(draft / DUMP)]
    try:
        subprocess.run(command, env={**os.environ, **variables}, check=True, capture_output=True, text=True)  # noqa: S603
    except FileNotFoundError:
        raise BackupError(
            "pg_dump is not installed here. Nothing was written; install the PostgreSQL client."
        ) from None
    except subprocess.CalledProcessError as failed:
        if "No space left" in failed.stderr:
            raise OSError(errno.ENOSPC, "No space left on device") from failed
        raise BackupError(f"pg_dump failed: {failed.stderr.strip()}. The incomplete copy was deleted.") from failed
    report("database", 1.0)
    return _array_files(ModelSnapshot.objects.filter(pruned_at=None).values_list("project", "checksum", "base"))


def _copy_secrets(draft: Path) -> bool:
    """Copy the key files in the data folder; return whether the secret key is one of them."""
    for name in (SECRET, CHECKPOINT_KEY):
        source, target = Path(settings.DATA_DIR) / name, draft / name
        if source.exists():
            target.touch(mode=0o600)
            target.write_bytes(source.read_bytes())
    return (draft / SECRET).exists()


# Checksums


def _checked_files(draft: Path, report: ReportProgress) -> Iterator[StoredFile]:
    paths = sorted(path for path in draft.rglob("*") if path.is_file())
    for done, path in enumerate(paths, start=1):
        sync(path)
        yield StoredFile(str(path.relative_to(draft)), path.stat().st_size, _sha256(path))
        report("checksums", done / len(paths))


def _seal(draft: Path, manifest: Manifest) -> None:
    """Write the manifest and the checksums as `sha256sum -c` reads them, and sync everything to disk."""
    text = json.dumps(manifest.as_dict(), indent=1, ensure_ascii=False) + "\n"
    (draft / MANIFEST).write_text(text, encoding="utf-8")
    sums = {file.path: file.sha256 for file in manifest.files} | {MANIFEST: _sha256(draft / MANIFEST)}
    (draft / CHECKSUMS).write_text("".join(f"{sums[path]}  {path}\n" for path in sorted(sums)), encoding="utf-8")
    for path in (draft / MANIFEST, draft / CHECKSUMS, draft):
        sync(path)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
