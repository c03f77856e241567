"""Import layers: checked by import-linter, and here by which modules are actually loaded."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings

from modelling.simulation.http_client import AddressError, HttpClient

LOADED = "import sys; print(' '.join(sorted({name.split('.')[0] for name in sys.modules})))"


def loaded_by(statement: str) -> set[str]:
    """Return the top-level packages that a new Python process has loaded after this statement."""
    command = [sys.executable, "-c", f"{statement}; {LOADED}"]
    ran = subprocess.run(command, cwd=settings.BASE_DIR, capture_output=True, text=True, check=True, timeout=600)
    return set(ran.stdout.split())


@pytest.mark.slow
def test_annotation_never_loads_modelling_or_numpy() -> None:
    setup = (
        "import os; os.environ['DJANGO_SETTINGS_MODULE'] = 'config.settings.test'; import django;"
        "from django.conf import settings; settings.INSTALLED_APPS.remove('modelling'); django.setup();"
        "import annotation.views.judging, annotation.views.projects.pages, annotation.views.projects.members,"
        " annotation.views.items, annotation.views.imports.steps, annotation.views.home, annotation.services,"
        " annotation.admin"
    )
    assert not {"modelling", "numpy", "scipy", "sklearn"} & loaded_by(setup)


@pytest.mark.slow
def test_crowdgppl_never_loads_django_or_other_apps() -> None:
    assert not {"django", "channels", "annotation", "config"} & loaded_by("import modelling.crowdgppl")


@pytest.mark.slow
def test_import_linter_finds_no_broken_contract() -> None:
    linted = subprocess.run(
        [sys.executable, "-m", "importlinter.cli", "lint"], cwd=settings.BASE_DIR, capture_output=True, text=True
    )
    assert linted.returncode == 0, linted.stdout


# Modules and functions that can call another machine. Redis, PostgreSQL and email are reached through settings only.
NETWORK_CALLS = re.compile(
    r"\b(http\.client\b|urllib\.request|urlopen|urllib3|httpx|aiohttp|ftplib|smtplib|xmlrpc|telnetlib"
    r"|create_connection|open_connection|getaddrinfo|gethostbyname|wrap_socket|socket\.socket\(|\.connect\(\()"
    r"|^\s*(import|from) (requests|ssl|asyncssl|websockets)\b",
    re.MULTILINE,
)
DATABASE_PROBE = "config/databases/postgresql/watchdog.py"  # probes the configured database server only
CLIENT, SIMULATE = "modelling/simulation/http_client.py", "modelling/management/commands/simulate_crowd.py"
USES_CLIENT = re.compile(r"^\s*(from|import) modelling\.simulation\.(http_client|http_worker|workers)\b", re.MULTILINE)


def test_only_the_webhook_client_calls_other_servers() -> None:
    """The webhook client refuses private addresses. The client of simulated workers connects only to this machine, and
    no page can import it.
    """
    packages = [settings.BASE_DIR / name for name in ("annotation", "modelling", "config")]
    files = [path for package in packages for path in package.rglob("*.py")]
    calling = {str(path.relative_to(settings.BASE_DIR)) for path in files if NETWORK_CALLS.search(_code(path))}
    assert calling == {"modelling/updater/webhooks/http_client.py", CLIENT, DATABASE_PROBE}
    importing = {str(path.relative_to(settings.BASE_DIR)) for path in files if USES_CLIENT.search(_code(path))}
    assert importing == {"modelling/simulation/http_worker.py", "modelling/simulation/workers.py", SIMULATE}


@pytest.mark.parametrize("url", ["http://203.0.113.7", "http://10.0.0.1", "https://concord.example", "http://[::2]/"])
def test_the_client_of_simulated_workers_refuses_other_machines(url: str) -> None:
    with pytest.raises(AddressError, match="is another machine"):
        HttpClient(url)


def _code(path: Path) -> str:
    """The file without its comments."""
    return re.sub(r"#.*", "", path.read_text(encoding="utf-8"))
