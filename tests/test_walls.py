"""Which rooms may see which: held by import-linter, and here by what is really loaded."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings

from annotation.doors import HttpDoor, WrongAddressError

LOADED = "import sys; print(' '.join(sorted({name.split('.')[0] for name in sys.modules})))"


def loaded_by(statement: str) -> set[str]:
    """The top-level packages a fresh Python has loaded after this statement."""
    command = [sys.executable, "-c", f"{statement}; {LOADED}"]
    ran = subprocess.run(command, cwd=settings.BASE_DIR, capture_output=True, text=True, check=True, timeout=60)
    return set(ran.stdout.split())


@pytest.mark.slow
def test_annotation_never_loads_modelling_or_numpy() -> None:
    setup = (
        "import os; os.environ['DJANGO_SETTINGS_MODULE'] = 'config.settings.test'; import django;"
        "from django.conf import settings; settings.INSTALLED_APPS.remove('modelling'); django.setup();"
        "import annotation.views.judging, annotation.views.projects, annotation.views.items, annotation.views.imports,"
        " annotation.views.members, annotation.views.home, annotation.services, annotation.admin"
    )
    assert not {"modelling", "numpy", "scipy", "sklearn"} & loaded_by(setup)


@pytest.mark.slow
def test_the_numerical_core_never_loads_django_or_the_rest() -> None:
    assert not {"django", "channels", "annotation", "config"} & loaded_by("import modelling.crowdgppl")


@pytest.mark.slow
def test_import_linter_agrees() -> None:
    linted = subprocess.run(
        [sys.executable, "-m", "importlinter.cli", "lint"], cwd=settings.BASE_DIR, capture_output=True, text=True
    )
    assert linted.returncode == 0, linted.stdout


# Whatever can call another machine. Redis, PostgreSQL and mail go through their own libraries, by settings alone.
CALLS = re.compile(
    r"\b(http\.client|urllib\.request|urlopen|urllib3|httpx|aiohttp|ftplib|smtplib|xmlrpc|telnetlib"
    r"|create_connection|open_connection|getaddrinfo|gethostbyname|wrap_socket|socket\.socket\(|\.connect\(\()"
    r"|^\s*(import|from) (requests|ssl|asyncssl|websockets)\b",
    re.MULTILINE,
)
DOORS, SIMULATE = "annotation/doors.py", "modelling/management/commands/simulate_crowd.py"
FOR_VISITORS = re.compile(
    r"^\s*(from|import) (annotation\.doors|annotation\.visitor|modelling\.simulated_workers)\b", re.MULTILINE
)


def test_one_module_alone_calls_other_servers() -> None:
    """H6: every call site of an HTTP client is in the module that refuses private addresses.

    The other one calls none: it refuses every machine but this one, and no page can reach it.
    """
    rooms = [settings.BASE_DIR / name for name in ("annotation", "modelling", "config")]
    files = [path for room in rooms for path in room.rglob("*.py")]
    calling = {str(path.relative_to(settings.BASE_DIR)) for path in files if CALLS.search(_code(path))}
    assert calling == {"modelling/outgoing.py", DOORS}
    importing = {str(path.relative_to(settings.BASE_DIR)) for path in files if FOR_VISITORS.search(_code(path))}
    assert importing == {"annotation/visitor.py", "modelling/simulated_workers.py", SIMULATE}


@pytest.mark.parametrize("url", ["http://203.0.113.7", "http://10.0.0.1", "https://concord.example", "http://[::2]/"])
def test_the_door_for_simulated_workers_opens_on_this_machine_only(url: str) -> None:
    with pytest.raises(WrongAddressError, match="is another machine"):
        HttpDoor(url)


def _code(path: Path) -> str:
    """The file without its comments."""
    return re.sub(r"#.*", "", path.read_text(encoding="utf-8"))
