"""A fresh install is closed: no accounts, no sign-up, its own key, its own machine only."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings
from django.test import Client

SERVER = {
    "DATABASE_URL": "postgres://u:p@127.0.0.1:1/x",
    "REDIS_URL": "redis://127.0.0.1:1/0",
    "ALLOWED_HOSTS": "concord.example",
}
KEY = "from django.conf import settings; print(settings.SECRET_KEY)"


def manage(data: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """manage.py as a person runs it: a process of its own, a data folder of its own, no variable but those given."""
    environment = {"PATH": os.environ["PATH"], "CONCORD_DATA": str(data), "OMP_NUM_THREADS": "1", **variables}
    command = [sys.executable, "manage.py", *words]
    return subprocess.run(
        command, env=environment, cwd=settings.BASE_DIR, capture_output=True, text=True, timeout=120, umask=0o022
    )


@pytest.mark.slow
def test_two_installs_have_two_keys_that_only_their_owner_reads(tmp_path: Path) -> None:
    keys = [manage(tmp_path / name, "shell", "--no-imports", "-c", KEY).stdout.strip() for name in "ab"]
    assert len(set(keys)) == 2
    assert min(map(len, keys)) >= 50
    assert stat.S_IMODE((tmp_path / "a" / "secret_key").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o700


@pytest.mark.slow
def test_a_new_database_holds_no_account(tmp_path: Path) -> None:
    assert manage(tmp_path, "migrate", "--verbosity", "0").returncode == 0
    count = "from annotation.models import User; print(User.objects.count())"
    assert manage(tmp_path, "shell", "--no-imports", "-c", count).stdout.strip() == "0"


@pytest.mark.slow
def test_the_server_profile_passes_django_s_deployment_check(tmp_path: Path) -> None:
    checked = manage(tmp_path, "check", "--deploy", "--fail-level", "WARNING", **SERVER)
    assert checked.returncode == 0, checked.stderr
    assert "no issues" in checked.stdout + checked.stderr


@pytest.mark.slow
@pytest.mark.parametrize("missing", ["REDIS_URL", "ALLOWED_HOSTS"])
def test_a_half_configured_server_says_what_is_missing(tmp_path: Path, missing: str) -> None:
    partial = {name: value for name, value in SERVER.items() if name != missing}
    refused = manage(tmp_path, "check", **partial)
    assert refused.returncode == 1
    assert f"'{missing}' must be set too" in refused.stderr


@pytest.mark.parametrize("address", ["/accounts/signup/", "/accounts/register/", "/signup/", "/register/"])
@pytest.mark.django_db
def test_nobody_can_sign_up(client: Client, address: str) -> None:
    assert client.post(address, {"username": "me", "password": "me"}).status_code == 404


@pytest.mark.parametrize("address", ["/.env", "/.git/config", "/data/secret_key", "/static/../manage.py", "/manage.py"])
@pytest.mark.django_db
def test_no_file_of_the_install_is_served(client: Client, address: str) -> None:
    assert client.get(address).status_code == 404


def test_debug_is_off() -> None:
    assert settings.DEBUG is False
