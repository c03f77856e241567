"""Backups taken while Concord runs: complete or not there at all, restored by the written steps, verified."""

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

from annotation.models import Judgement, Project, Worker
from annotation.services import Receipt
from modelling import backups, updating
from modelling.models import ModelSnapshot
from tests.drills.backups import drill, restored
from tests.drills.database import fresh_postgres, query
from tests.drills.install import Install

pytestmark = pytest.mark.django_db(transaction=True)

HOW_MANY = 20 if os.environ.get("DRILLS") == "long" else 2


@pytest.fixture
def learned(project: Project, worker: Worker, judge: Callable[..., Receipt], settings) -> ModelSnapshot:
    """Three answers and a version, in a data folder with a secret."""
    for _ in range(3):
        judge(worker)
    (settings.DATA_DIR / "secret_key").write_text("hush")
    snapshot = updating.run_one("one")
    assert snapshot is not None
    return snapshot


@pytest.fixture
def destination(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("elsewhere") / "monday"


def names_in(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_a_backup_holds_database_arrays_and_secret_with_their_checksums(
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


def test_the_copy_is_sound_and_holds_every_judgement(learned: ModelSnapshot, destination: Path) -> None:
    backups.back_up(destination)
    count = "SELECT COUNT(*) FROM annotation_judgement"
    with restored(destination, os.environ.get("DATABASE_URL", "")) as copy:
        assert query(copy, count) == [(Judgement.objects.count(),)]


def test_the_secret_can_be_left_out_and_that_is_said(
    learned: ModelSnapshot, destination: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call_command("backup", destination, "--without-secret")
    assert not (destination / "secret_key").exists()
    assert "The secret key is not in it" in capsys.readouterr().out


def test_nothing_is_ever_overwritten(learned: ModelSnapshot, destination: Path) -> None:
    destination.mkdir()
    with pytest.raises(CommandError, match="exists already"):
        call_command("backup", destination)
    assert names_in(destination) == set()
    destination.rename(destination.with_name("monday.partial"))
    with pytest.raises(CommandError, match="another backup to this name is running, or one was killed"):
        call_command("backup", destination)
    assert not destination.exists()


def test_a_folder_that_is_not_there_is_named(learned: ModelSnapshot, destination: Path) -> None:
    with pytest.raises(CommandError, match="There is no folder"):
        call_command("backup", destination / "deeper")


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left on device"), sqlite3.OperationalError("database or disk is full")]
)
def test_a_full_disk_is_said_and_leaves_nothing_behind(
    learned: ModelSnapshot, destination: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def full(*args: object) -> None:
        raise error

    monkeypatch.setattr(backups, "_copy_arrays", full)
    with pytest.raises(CommandError, match=r"is full\. What was written is deleted"):
        call_command("backup", destination)
    assert list(destination.parent.iterdir()) == []


def test_arrays_thrown_away_meanwhile_are_in_the_backup_or_marked_as_gone(
    learned: ModelSnapshot, destination: Path, settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the first look at the files and the copy of the database a version is pruned."""
    copied = backups._copy_arrays

    def then_prune(*args: object) -> None:
        copied(*args)
        path = settings.DATA_DIR / "snapshots" / str(learned.project_id) / f"{learned.checksum}.npz"
        path.unlink(missing_ok=True)

    monkeypatch.setattr(backups, "_copy_arrays", then_prune)
    assert backups.back_up(destination).missing == []
    assert (destination / f"snapshots/{learned.project_id}/{learned.checksum}.npz").exists()


def test_drafts_and_arrays_nobody_speaks_of_stay_out_and_missing_ones_are_named(
    learned: ModelSnapshot, destination: Path, settings, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = settings.DATA_DIR / "snapshots" / str(learned.project_id)
    (folder / "abc.npz").write_bytes(b"nobody's")
    (folder / "abc.7.tmp").write_bytes(b"half")
    (folder / f"{learned.checksum}.npz").unlink()
    call_command("backup", destination)
    assert "Files of arrays missing before: 1." in capsys.readouterr().out
    assert not [name for name in names_in(destination) if name.startswith("snapshots/")]


def test_arrays_in_the_table_need_no_files(learned: ModelSnapshot, destination: Path, settings) -> None:
    settings.SNAPSHOT_ARRAYS = "table"
    backups.back_up(destination)
    assert not (destination / "snapshots").exists()


def test_progress_is_told_part_by_part(learned: ModelSnapshot, destination: Path) -> None:
    told: list[tuple[str, float]] = []
    backups.back_up(destination, tell=lambda what, share: told.append((what, share)))
    assert {what for what, _ in told} == {"arrays", "database", "checksums"}
    assert all(0 <= share <= 1 for _, share in told)


@pytest.fixture
def install(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Install]:
    """An empty Concord on the database under test."""
    folder = tmp_path_factory.mktemp("concord") / "data"
    folder.mkdir()
    if server := os.environ.get("DATABASE_URL"):
        with fresh_postgres(server) as address:
            yield Install(folder, address)
    else:
        yield Install(folder)


@pytest.mark.slow
def test_backups_under_writes_are_restored_and_verified(install: Install) -> None:
    """P17; twenty with DRILLS=long."""
    figures = drill(install, backups=HOW_MANY, clients=8, items=60, seed=1)
    assert figures["passed"], figures
    assert (figures["sound"], figures["lost"]) == (HOW_MANY, 0)
