"""Databases of every release are upgraded without a lost or changed judgement; `make_database.sh` made them."""

import gzip
import os
import sqlite3
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from benchmarks.load.database import query, temporary_postgres_database
from benchmarks.load.installation import Installation
from benchmarks.load.servers import find_postgres

pytestmark = [pytest.mark.slow, pytest.mark.both_databases]

FOLDER = Path(__file__).parent
RELEASES = ["0.1.0"]
PAGES = """
from django.conf import settings
from django.http import HttpRequest
from django.test import Client
settings.ALLOWED_HOSTS = ["*"]
client = Client(headers={"x-forwarded-proto": "https"})
assert client.login(request=HttpRequest(), username="olga", password="correct-horse-battery")
pages = ("/projects/pets/", "/projects/pets/ranking/", "/projects/pets/workers/", "/s/pets/")
print([client.get(page).status_code for page in pages])
"""
JUDGEMENTS = "SELECT sequence, CAST(uuid AS TEXT), choice, hash FROM annotation_judgement ORDER BY sequence"


@pytest.fixture(params=RELEASES)
def old_database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Installation]:
    """The data folder or database of this release, as the administrator finds it after installing the new one."""
    if server := os.environ.get("DATABASE_URL"):
        dump = gzip.decompress((FOLDER / f"{request.param}.postgresql.sql.gz").read_bytes())
        programs = find_postgres()
        assert programs is not None
        with temporary_postgres_database(server) as url:
            command = [programs / "psql", "--quiet", "--set", "ON_ERROR_STOP=1", url]
            subprocess.run(command, input=dump, check=True, stdout=subprocess.DEVNULL)
            yield Installation(tmp_path, url)
    else:
        with tarfile.open(FOLDER / f"{request.param}.sqlite.tar.gz") as archive:
            archive.extractall(tmp_path, filter="data")
        with closing(sqlite3.connect(tmp_path / "concord.sqlite3")) as connection:
            connection.executescript((tmp_path / "concord.sql").read_text())
        yield Installation(tmp_path)


def test_an_upgrade_keeps_every_judgement(old_database: Installation) -> None:
    before = query(old_database.database, JUDGEMENTS)
    assert len(before) == 300
    old_database.run_command("migrate", "--verbosity", "0")
    assert query(old_database.database, JUDGEMENTS) == before
    verified, output = old_database.verify()
    assert verified, output
    old_database.run_command("update_models", "--project", "pets")
    newest = query(old_database.database, "SELECT MAX(last_sequence) FROM modelling_modelsnapshot")
    assert newest == [(before[-1][0],)], "the model learns from the old judgements"
    verified, output = old_database.verify()
    assert verified, output


def test_the_upgraded_pages_and_accounts_work(old_database: Installation) -> None:
    old_database.run_command("migrate", "--verbosity", "0")
    old_database.run_python("from config.static_files import collect; collect()")
    statuses = old_database.run_python(PAGES)
    assert statuses.strip().splitlines()[-1] == "[200, 200, 200, 200]"


def test_a_downgrade_is_refused_with_an_explanation(old_database: Installation) -> None:
    old_database.run_command("migrate", "--verbosity", "0")
    refused = old_database.manage("migrate", "annotation", "0005")
    assert refused.returncode != 0
    assert "restore" in refused.stderr.lower() or "backup" in refused.stderr.lower(), refused.stderr
