"""The files in deploy/: units that systemd accepts, commands that exist, every setting in the template."""

import configparser
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.management import get_commands, load_command_class

from benchmarks.load.installation import ROOT

DEPLOY = ROOT / "deploy"
UNITS = sorted((DEPLOY / "systemd").iterdir())
SERVICES = [unit for unit in UNITS if unit.suffix == ".service"]
ENVIRONMENT = re.compile(r"os\.environ(?:\.get\(|\[)\"([A-Z_]+)\"")
NOT_FOR_ADMINISTRATORS = {"DJANGO_SETTINGS_MODULE", "FAULTS", "CONCORD_DRILL", "PROMETHEUS_MULTIPROC_DIR"}


def read_unit(path: Path) -> configparser.RawConfigParser:
    unit = configparser.RawConfigParser(strict=False)
    unit.optionxform = str  # type: ignore[assignment]
    unit.read(path)
    return unit


def assert_command_exists(words: list[str]) -> None:
    """Check a command of manage.py with its options."""
    name, *options = words
    command = load_command_class(get_commands()[name], name)
    command.create_parser("manage.py", name).parse_args(options)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    for unit in UNITS:
        text = unit.read_text().replace("/opt/concord/.venv/bin/python", sys.executable).replace("/opt/concord", "/tmp")
        (tmp_path / unit.name).write_text(text)
    ran = subprocess.run(
        ["systemd-analyze", "verify", "--recursive-errors=no", *map(str, sorted(tmp_path.iterdir()))],
        capture_output=True,
        text=True,
    )
    complaints = [line for line in ran.stderr.splitlines() if "concord" in line]
    assert (ran.returncode, complaints) == (0, []), ran.stderr


@pytest.mark.parametrize("service", SERVICES, ids=lambda path: path.name)
def test_services_run_existing_commands_without_privileges(service: Path) -> None:
    section = read_unit(service)["Service"]
    assert section["User"] == "concord"
    assert section["ProtectSystem"] == "strict"
    assert section["NoNewPrivileges"] == "true"
    start = section["ExecStart"].removeprefix("/bin/sh -c 'exec ").rstrip("'")
    words = shlex.split(start)
    assert words[0] == "/opt/concord/.venv/bin/python"
    if words[1] == "manage.py":
        assert_command_exists(words[2:])
    else:
        assert words[1:5] == ["-m", "celery", "-A", "config.celery"]
        assert words[5] in ("worker", "beat")


def test_the_template_names_every_variable_that_settings_read() -> None:
    read = set()
    for path in (ROOT / "config").rglob("*.py"):
        read |= set(ENVIRONMENT.findall(path.read_text()))
    read.discard("PGHOST")
    read.discard("PGPORT")
    named = set(re.findall(r"^#?([A-Z_]+)=", (DEPLOY / "concord.env.example").read_text(), re.MULTILINE))
    assert named == (read | {"DATABASE_URL", "OMP_NUM_THREADS"}) - NOT_FOR_ADMINISTRATORS


def test_the_container_has_the_whole_program_and_no_root() -> None:
    lines = [line for line in (DEPLOY / "Containerfile").read_text().splitlines() if line and not line.startswith("#")]
    copied = {line.split()[1] for line in lines if line.startswith("COPY")}
    assert all((ROOT / name).exists() for name in copied)
    assert copied >= {"manage.py", "annotation", "config", "modelling", "templates", "static", "locale"}
    assert lines.index("USER concord") < next(n for n, line in enumerate(lines) if line.startswith("CMD ["))
    assert any("--require-hashes -r requirements.lock" in line for line in lines)
    command = next(line for line in lines if line.startswith("CMD ["))
    assert_command_exists(re.findall(r'"([^"]+)"', command))
