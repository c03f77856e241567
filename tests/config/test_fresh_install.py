"""A fresh installation has no accounts, no sign-up and its own secret key."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings
from django.test import Client

from benchmarks.load.installation import Installation
from config.secret_key import make_private

SERVER = {
    "DATABASE_URL": "postgres://u:p@127.0.0.1:1/x",
    "REDIS_URL": "redis://127.0.0.1:1/0",
    "ALLOWED_HOSTS": "concord.example",
}
KEY = "from django.conf import settings; print(settings.SECRET_KEY)"


def manage(data: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run manage.py in a new process with its own data folder and only these variables."""
    environment = {"PATH": os.environ["PATH"], "CONCORD_DATA": str(data), "OMP_NUM_THREADS": "1", **variables}
    command = [sys.executable, "manage.py", *arguments]
    return subprocess.run(
        command, env=environment, cwd=settings.BASE_DIR, capture_output=True, text=True, timeout=600, umask=0o022
    )


@pytest.mark.slow
def test_each_installation_has_its_own_private_key(tmp_path: Path) -> None:
    keys = [manage(tmp_path / name, "shell", "--no-imports", "-c", KEY).stdout.strip() for name in "ab"]
    assert len(set(keys)) == 2
    assert min(map(len, keys)) >= 50
    assert stat.S_IMODE((tmp_path / "a" / "secret_key").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "a" / "checkpoint_key").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o700


@pytest.mark.parametrize("content", [None, "secret_key", "concord.sqlite3"])
def test_an_existing_data_folder_is_closed_to_other_users(tmp_path: Path, content: str | None) -> None:
    tmp_path.chmod(0o755)
    if content:
        (tmp_path / content).touch()
    make_private(tmp_path)
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o700


@pytest.mark.parametrize(("mode", "content"), [(0o755, "thesis.txt"), (0o1777, "secret_key")])
def test_a_shared_folder_is_left_as_it_is(tmp_path: Path, mode: int, content: str) -> None:
    (tmp_path / content).touch()
    tmp_path.chmod(mode)
    make_private(tmp_path)
    assert stat.S_IMODE(tmp_path.stat().st_mode) == mode


TLS = (
    "import json; from django.test import Client; "
    "from django.conf import settings as s; from annotation import services; "
    "services.create_project(owner=None, slug='pets', title='Pets', state='open'); "
    "c = Client(headers={'host': 'study.example.org', 'x-forwarded-proto': 'https'}); "
    "r = c.get('/healthz'); c.post('/s/pets/join/', {'consent': 'on'}); "
    "print(json.dumps([r.status_code, r.get('Strict-Transport-Security', ''), s.CSRF_TRUSTED_ORIGINS, "
    "{'session': s.SESSION_COOKIE_SECURE, 'csrf': s.CSRF_COOKIE_SECURE, "
    "**{name: bool(cookie['secure']) for name, cookie in c.cookies.items()}}]))"
)


@pytest.mark.slow
@pytest.mark.parametrize("address", ["https://study.example.org", "http://study.example.org"])
def test_the_embedded_profile_behind_tls_has_secure_cookies_and_hsts(tmp_path: Path, address: str) -> None:
    variables = {"PUBLIC_ADDRESS": address, "ALLOWED_HOSTS": "study.example.org"}
    Installation(tmp_path).create_tables()
    ran = manage(tmp_path, "shell", "--no-imports", "-c", TLS, **variables)
    status, hsts, origins, cookies = json.loads(ran.stdout.strip().splitlines()[-1])
    tls = address.startswith("https")
    assert status == 200
    assert hsts.startswith("max-age=31536000") == tls
    assert (address in origins) == tls
    assert len(cookies) == 3
    assert set(cookies.values()) == {tls}
    assert any(name.startswith("__Host-concord_worker_") for name in cookies) == tls


@pytest.mark.slow
def test_a_new_database_has_no_account(tmp_path: Path) -> None:
    assert manage(tmp_path, "migrate", "--verbosity", "0").returncode == 0
    count = "from annotation.models import User; print(User.objects.count())"
    assert manage(tmp_path, "shell", "--no-imports", "-c", count).stdout.strip() == "0"


@pytest.mark.slow
def test_the_server_profile_passes_the_deployment_check(tmp_path: Path) -> None:
    checked = manage(tmp_path, "check", "--deploy", "--fail-level", "WARNING", **SERVER)
    assert checked.returncode == 0, checked.stderr
    assert "no issues" in checked.stdout + checked.stderr


@pytest.mark.slow
@pytest.mark.parametrize("missing", ["REDIS_URL", "ALLOWED_HOSTS"])
def test_a_missing_server_variable_is_named(tmp_path: Path, missing: str) -> None:
    partial = {name: value for name, value in SERVER.items() if name != missing}
    refused = manage(tmp_path, "check", **partial)
    assert refused.returncode == 1
    assert f"'{missing}' must be set too" in refused.stderr


@pytest.mark.parametrize("address", ["/accounts/signup/", "/accounts/register/", "/signup/", "/register/"])
@pytest.mark.django_db
def test_there_is_no_sign_up(client: Client, address: str) -> None:
    assert client.post(address, {"username": "me", "password": "me"}).status_code == 404


@pytest.mark.parametrize("address", ["/.env", "/.git/config", "/data/secret_key", "/static/../manage.py", "/manage.py"])
@pytest.mark.django_db
def test_no_project_file_is_served(client: Client, address: str) -> None:
    assert client.get(address).status_code == 404


def test_debug_is_off() -> None:
    assert settings.DEBUG is False
