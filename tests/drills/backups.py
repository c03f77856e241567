"""The backup drill (P17): a crowd judges, the model learns, and every backup taken meanwhile is whole."""

import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.drills import database
from tests.drills.crowd import Crowd
from tests.drills.database import fresh_postgres
from tests.drills.install import Install
from tests.drills.ledger import OK, Ledger, read
from tests.drills.waiting import wait_until

SLUG = "drill"
SECONDS = 600
ANSWERS_BETWEEN = 40  # at least, so that every backup meets a database that has moved on


def drill(install: Install, *, backups: int, clients: int, items: int, seed: int) -> dict[str, Any]:
    """Figures of one whole drill on this empty install."""
    install.prepare(SLUG, items=items, update_batch=50)
    book, taken = install.folder / "ledger.csv", []
    with install, Ledger(book) as ledger:
        install.start()
        crowd = Crowd(install, SLUG, clients, seed, ledger)
        crowd.join()
        with crowd.answering(10**9):
            for number in range(backups):
                wanted = crowd.acknowledged + ANSWERS_BETWEEN
                wait_until(lambda wanted=wanted: crowd.acknowledged >= wanted, SECONDS, "the crowd stopped")
                taken.append(take(install, book, number))
            crowd.stop()
        answers = crowd.acknowledged
    restored = [restore(install, backup) for backup in taken]
    return {
        "drill": "backups while people judge (P17)",
        "database": "postgresql" if install.database_url else "sqlite",
        "backups": len(restored),
        "answers": answers,
        "sound": sum(each["sound"] for each in restored),
        "lost": sum(each["lost"] for each in restored),
        "versions": [each["versions"] for each in restored],
        "said": [each["said"] for each in restored if not each["sound"]],
        "seconds": [backup["seconds"] for backup in taken],
        "passed": all(each["sound"] and not each["lost"] for each in restored) and len(restored) == backups,
    }


def take(install: Install, book: Path, number: int) -> dict[str, Any]:
    """One backup by the shipped command, and what had been acknowledged before it began."""
    acknowledged = {uuid for uuid, entry in read(book).items() if entry.outcome == OK}
    folder = install.folder.with_name(f"{install.folder.name}-backup-{number}")
    began = time.perf_counter()
    done = install.manage("backup", str(folder), "--json")
    if done.returncode:
        raise RuntimeError(done.stderr)
    return {
        "folder": folder,
        "acknowledged": acknowledged,
        "manifest": json.loads(done.stdout),
        "seconds": round(time.perf_counter() - began, 1),
    }


def restore(install: Install, backup: dict[str, Any]) -> dict[str, Any]:
    """By the steps of docs/deployment.md into a fresh folder; whether all is well there, and what is lost."""
    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=backup["folder"], check=True)
    folder = backup["folder"].with_name(f"{backup['folder'].name}-restored")
    shutil.copytree(backup["folder"], folder)
    with restored(folder, install.database_url) as where:
        again = Install(folder, str(where) if install.database_url else "")
        sound, said = again.verify()
        present = {row.uuid for row in database.judgements(where, SLUG)}
        versions = database.query(where, "SELECT COUNT(*) FROM modelling_modelsnapshot")[0][0]
    shutil.rmtree(folder)
    return {"sound": sound, "said": said, "lost": len(backup["acknowledged"] - present), "versions": versions}


@contextmanager
def restored(folder: Path, server: str) -> Iterator[Path | str]:
    """The database of a backup: its file, or, with the address of a PostgreSQL server, what its dump becomes there."""
    if not server:
        yield folder / "concord.sqlite3"
        return
    with fresh_postgres(server) as address:
        command = ["pg_restore", "--no-owner", "--exit-on-error", "--dbname", address, str(folder / "concord.dump")]
        subprocess.run(command, check=True)
        yield address
