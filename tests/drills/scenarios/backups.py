"""The backup drill: every backup taken while a crowd judges and the model updates is complete."""

import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.load import database
from benchmarks.load.crowd import Crowd
from benchmarks.load.installation import Installation
from benchmarks.load.send_log import OK, SendLog, read_log
from benchmarks.load.waiting import wait_until

SLUG = "drill"
SECONDS = 600
ANSWERS_BETWEEN = 40  # at least, so that every backup sees a changed database


def drill(installation: Installation, *, backups: int, clients: int, items: int, seed: int) -> dict[str, Any]:
    """Take backups under load on this empty installation, restore each, and return the figures."""
    installation.prepare(SLUG, items=items, update_batch=50)
    log_path, taken = installation.folder / "sends.csv", []
    with installation, SendLog(log_path) as send_log:
        installation.start()
        crowd = Crowd(installation, SLUG, clients, seed, send_log)
        crowd.join()
        with crowd.answering(10**9):
            for number in range(backups):
                wanted = crowd.acknowledged + ANSWERS_BETWEEN
                wait_until(lambda wanted=wanted: crowd.acknowledged >= wanted, SECONDS, "the crowd stopped")
                taken.append(take(installation, log_path, number))
            crowd.stop()
        answers = crowd.acknowledged
    restored = [restore(installation, backup) for backup in taken]
    return {
        "drill": "backups while people judge",
        "database": "postgresql" if installation.database_url else "sqlite",
        "backups": len(restored),
        "answers": answers,
        "verified": sum(each["verified"] for each in restored),
        "lost": sum(each["lost"] for each in restored),
        "versions": [each["versions"] for each in restored],
        "failures": [each["output"] for each in restored if not each["verified"]],
        "seconds": [backup["seconds"] for backup in taken],
        "passed": all(each["verified"] and not each["lost"] for each in restored) and len(restored) == backups,
    }


def take(installation: Installation, log_path: Path, number: int) -> dict[str, Any]:
    """Take one backup with the shipped command; record which sends were acknowledged before it began."""
    acknowledged = {uuid for uuid, send in read_log(log_path).items() if send.outcome == OK}
    folder = installation.folder.with_name(f"{installation.folder.name}-backup-{number}")
    began = time.perf_counter()
    manifest = json.loads(installation.run_command("backup", str(folder), "--json"))
    return {
        "folder": folder,
        "acknowledged": acknowledged,
        "manifest": manifest,
        "seconds": round(time.perf_counter() - began, 1),
    }


def restore(installation: Installation, backup: dict[str, Any]) -> dict[str, Any]:
    """Restore into an empty folder by the steps of docs/deployment.md, verify it, and count lost judgements."""
    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=backup["folder"], check=True)
    folder = backup["folder"].with_name(f"{backup['folder'].name}-restored")
    shutil.copytree(backup["folder"], folder)
    with restored(folder, installation.database_url) as where:
        verified, output = Installation(folder, str(where) if installation.database_url else "").verify()
        present = {row.uuid for row in database.judgements(where, SLUG)}
        versions = database.query(where, "SELECT COUNT(*) FROM modelling_modelsnapshot")[0][0]
    shutil.rmtree(folder)
    return {
        "verified": verified,
        "output": output,
        "lost": len(backup["acknowledged"] - present),
        "versions": versions,
    }


@contextmanager
def restored(folder: Path, server: str) -> Iterator[Path | str]:
    """Yield a backup's database: its SQLite file, or its dump restored to a temporary PostgreSQL database."""
    if not server:
        yield folder / "concord.sqlite3"
        return
    with database.temporary_postgres_database(server) as url:
        command = ["pg_restore", "--no-owner", "--exit-on-error", "--dbname", url, str(folder / "concord.dump")]
        subprocess.run(command, check=True)
        yield url
