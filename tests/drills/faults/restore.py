"""D12: the database is deleted and restored from a backup taken under load, by the steps of docs/deployment.md."""

import shutil
import subprocess
import time
from pathlib import Path

import psycopg

from benchmarks.load import database
from benchmarks.load.send_log import OK, read_log
from tests.drills.faults.frame import SLUG, Run, start, stop

KEPT = ("server.log", "celery.log", "staticfiles")


def restored_from_backup(run: Run) -> None:
    """D12: everything acknowledged before the backup is there; clients go on, and send unacknowledged answers once."""
    log_path = run.workforce.clients[0].send_log.path  # type: ignore[union-attr]
    before = {uuid for uuid, send in read_log(log_path).items() if send.outcome == OK}
    backup = run.server.folder.with_name(f"{run.server.folder.name}-backup")
    run.server.run_command("backup", str(backup))
    run.pause(run.frame.fault)
    began = time.perf_counter()
    stop(run.server)
    run.excused = acknowledged(log_path) - before
    restore(run, backup)
    present = {row.uuid for row in database.judgements(run.server.database, SLUG)}
    run.expect(before <= present, f"{len(before - present)} answers from before the backup are missing")
    verified, output = run.server.verify()
    run.expect(verified, output)
    start(run.server)
    run.figures |= {"acknowledged_before_backup": len(before), "acknowledged_after_it": len(run.excused)}
    run.expect_within(15 * 60, "restore_seconds", time.perf_counter() - began)
    run.expect_within(60, "first_answer_seconds", run.seconds_to_next_answer())
    shutil.rmtree(backup)


def acknowledged(log_path: Path) -> set[str]:
    return {uuid for uuid, send in read_log(log_path).items() if send.outcome == OK}


def restore(run: Run, backup: Path) -> None:
    """Delete the database and put the backup in its place."""
    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=backup, check=True)
    if run.server.database_url:
        name = run.server.database_url.rsplit("/", 1)[1]
        with psycopg.connect(run.stack.postgres.url, autocommit=True) as connection:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
            connection.execute(f"CREATE DATABASE {name}")
        command = ["pg_restore", "--no-owner", "--exit-on-error", "--dbname", run.server.database_url]
        subprocess.run([*command, str(backup / "concord.dump")], check=True)
        return
    for path in run.server.folder.iterdir():
        if path.name not in KEPT and not path.name.startswith("sends-"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    shutil.copytree(backup, run.server.folder, dirs_exist_ok=True)
