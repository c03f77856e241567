"""Backups of a running installation: complete or absent, restored by the documented steps, verified."""

import json
import os
import sqlite3
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.utils import timezone

from annotation.models import AuditEntry, Judgement, Project, Worker
from annotation.services import Receipt
from benchmarks.load.database import query
from benchmarks.load.installation import Installation
from modelling.exports import backup
from modelling.models import ModelSnapshot
from modelling.updater import update
from tests.drills.scenarios.backups import drill, restored
from tests.helpers.postgres import installation_in

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both_databases]

HOW_MANY = 20 if os.environ.get("DRILLS") == "long" else 2


@pytest.fixture
def learned(project: Project, worker: Worker, judge: Callable[..., Receipt], settings) -> ModelSnapshot:
    """Three answers and a version, in a data folder with a secret."""
    for _ in range(3):
        judge(worker)
    (settings.DATA_DIR / "secret_key").write_text("hush")
    snapshot = update.update_one("one")
    assert snapshot is not None
    return snapshot


@pytest.fixture
def destination(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("elsewhere") / "monday"


def names_in(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_a_backup_contains_database_arrays_secret_and_checksums(
    learned: ModelSnapshot, destination: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call_command("backup", destination, "--json")
    manifest = json.loads(capsys.readouterr().out)
    file = "concord.sqlite3" if connection.vendor == "sqlite" else "concord.dump"
    arrays = f"snapshots/{learned.project_id}/{learned.checksum}.npz"
    assert names_in(destination) == {file, arrays, "secret_key", "manifest.json", "SHA256SUMS"}
    assert (manifest["sequences"], manifest["missing"], manifest["secret"]) == ({"pets": 3}, [], True)
    assert stat.S_IMODE((destination / "secret_key").stat().st_mode) == 0o600
    assert stat.S_IMODE(destination.stat().st_mode) == 0o700
    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=destination, check=True)
    assert json.loads((destination / "manifest.json").read_text()) == manifest


def test_the_copy_is_valid_and_contains_every_judgement(learned: ModelSnapshot, destination: Path) -> None:
    backup.back_up(destination)
    count = "SELECT COUNT(*) FROM annotation_judgement"
    with restored(destination, os.environ.get("DATABASE_URL", "")) as copy:
        assert query(copy, count) == [(Judgement.objects.count(),)]


def test_the_copy_can_be_opened_from_a_folder_that_is_read_only(learned: ModelSnapshot, destination: Path) -> None:
    if connection.vendor != "sqlite":  # a dump is not opened
        return
    backup.back_up(destination)
    header = (destination / "concord.sqlite3").read_bytes()[:20]
    assert header[18:20] == b"\x01\x01", "a database in WAL mode needs files beside it, also to be read"


def test_the_copy_is_as_of_its_start_however_much_is_written_meanwhile(
    learned: ModelSnapshot, destination: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise SQLite starts the copy again after every write, and on a busy server it never ends."""
    if connection.vendor != "sqlite":  # pg_dump reads one snapshot
        return
    monkeypatch.setattr(backup, "DATABASE_PAGES", 20)

    written = AuditEntry.objects.filter(action="written during the backup")

    def write(stage: str, share: float) -> None:
        if stage == "database" and written.count() < 5:
            AuditEntry.objects.create(action="written during the backup")

    backup.back_up(destination, report=write)
    assert written.count() == 5
    with restored(destination, "") as copy:
        assert query(copy, "SELECT COUNT(*) FROM annotation_auditentry WHERE action LIKE 'written%'") == [(0,)]


def test_the_secret_can_be_left_out_with_a_notice(
    learned: ModelSnapshot, destination: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call_command("backup", destination, "--without-secret")
    assert not (destination / "secret_key").exists()
    assert "The secret key is not included" in capsys.readouterr().out


def test_nothing_is_overwritten(learned: ModelSnapshot, destination: Path) -> None:
    destination.mkdir()
    with pytest.raises(CommandError, match="already exists"):
        call_command("backup", destination)
    assert names_in(destination) == set()
    destination.rename(destination.with_name("monday.partial"))
    with pytest.raises(CommandError, match="another backup to this name is running or was interrupted"):
        call_command("backup", destination)
    assert not destination.exists()


def test_a_damaged_database_is_reported_and_not_kept(learned: ModelSnapshot, destination: Path) -> None:
    if connection.vendor != "sqlite":  # pg_dump reports damage itself
        return
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA ignore_check_constraints=ON")
        cursor.execute("UPDATE annotation_item SET text = ''")
        cursor.execute("PRAGMA ignore_check_constraints=OFF")
    with pytest.raises(CommandError, match="The copy of the database is damaged: CHECK constraint failed"):
        call_command("backup", destination)
    assert list(destination.parent.iterdir()) == []


def test_a_missing_parent_folder_is_named(learned: ModelSnapshot, destination: Path) -> None:
    with pytest.raises(CommandError, match="There is no folder"):
        call_command("backup", destination / "deeper")


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left on device"), sqlite3.OperationalError("database or disk is full")]
)
def test_a_full_disk_is_reported_and_leaves_nothing_behind(
    learned: ModelSnapshot, destination: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def full(*args: object) -> None:
        raise error

    monkeypatch.setattr(backup, "_copy_arrays", full)
    with pytest.raises(CommandError, match=r"is full\. The incomplete copy was deleted"):
        call_command("backup", destination)
    assert list(destination.parent.iterdir()) == []


def test_arrays_pruned_during_the_backup_are_included(
    learned: ModelSnapshot, destination: Path, settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A version is pruned between listing the files and copying the database."""
    copied = backup._copy_arrays

    def then_prune(*args: object) -> None:
        copied(*args)
        path = settings.DATA_DIR / "snapshots" / str(learned.project_id) / f"{learned.checksum}.npz"
        path.unlink(missing_ok=True)

    monkeypatch.setattr(backup, "_copy_arrays", then_prune)
    assert backup.back_up(destination).missing == []
    assert (destination / f"snapshots/{learned.project_id}/{learned.checksum}.npz").exists()


def test_unused_arrays_are_left_out_and_missing_ones_are_named(
    learned: ModelSnapshot, destination: Path, settings, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = settings.DATA_DIR / "snapshots" / str(learned.project_id)
    (folder / "abc.npz").write_bytes(b"unused")
    (folder / "abc.7.tmp").write_bytes(b"half")
    (folder / f"{learned.checksum}.npz").unlink()
    call_command("backup", destination)
    assert "1 model data files were already missing" in capsys.readouterr().out
    assert not [name for name in names_in(destination) if name.startswith("snapshots/")]


def test_the_arrays_of_a_pruned_version_are_not_missing(learned: ModelSnapshot, destination: Path, settings) -> None:
    (settings.DATA_DIR / "snapshots" / str(learned.project_id) / f"{learned.checksum}.npz").unlink()
    ModelSnapshot.objects.update(pruned_at=timezone.now())
    assert backup.back_up(destination).missing == []


def test_arrays_in_the_table_need_no_files(learned: ModelSnapshot, destination: Path, settings) -> None:
    settings.FILE_STORAGE = "table"
    backup.back_up(destination)
    assert not (destination / "snapshots").exists()


def test_progress_is_reported_step_by_step(learned: ModelSnapshot, destination: Path) -> None:
    reports: list[tuple[str, float]] = []
    backup.back_up(destination, report=lambda what, share: reports.append((what, share)))
    assert {what for what, _ in reports} == {"arrays", "database", "checksums"}
    assert all(0 <= share <= 1 for _, share in reports)


@pytest.fixture
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """An empty installation on the database under test."""
    folder = tmp_path_factory.mktemp("concord") / "data"
    folder.mkdir()
    with installation_in(folder) as installation:
        yield installation


@pytest.mark.slow
def test_backups_under_writes_are_restored_and_verified(installation: Installation) -> None:
    """Twenty backups with DRILLS=long."""
    figures = drill(installation, backups=HOW_MANY, clients=8, items=60, seed=1)
    assert figures["passed"], figures
    assert (figures["verified"], figures["lost"]) == (HOW_MANY, 0)
