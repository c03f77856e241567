"""Dependencies: pinned with hashes, the same in both lists, installed as locked, and listed in the SBOM."""

import json
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

from deploy.sbom import locked_packages

ROOT = Path(__file__).parents[2]
RUNTIME, DEVELOPMENT = ROOT / "requirements.lock", ROOT / "requirements-dev.lock"


def test_every_package_is_pinned_with_hashes_and_no_address() -> None:
    for lock in (RUNTIME, DEVELOPMENT):
        assert [name for name, (_version, hashes) in locked_packages(lock).items() if not hashes] == []
        assert not re.search(r"https?://|--index-url|--extra-index-url|git\+", lock.read_text())


def test_both_lists_have_the_same_versions() -> None:
    development = locked_packages(DEVELOPMENT)
    differing = {name for name, found in locked_packages(RUNTIME).items() if development.get(name) != found}
    assert differing == set()


def test_the_tests_run_with_the_locked_versions() -> None:
    installed = {name.lower().replace("_", "-"): version for name, version in installed_packages()}
    locked = {name: version for name, (version, _hashes) in locked_packages(RUNTIME).items()}
    assert {name: installed.get(name, version) for name, version in locked.items()} == locked


def installed_packages() -> list[tuple[str, str]]:
    return [(found.metadata["Name"], found.version) for found in metadata.distributions()]


def test_the_bill_of_materials_lists_every_locked_package_once() -> None:
    ran = subprocess.run([sys.executable, ROOT / "deploy" / "sbom.py"], capture_output=True, text=True, check=True)
    bill = json.loads(ran.stdout)
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.5")
    listed = [(each["name"], each["version"]) for each in bill["components"]]
    assert listed == sorted((name, version) for name, (version, _hashes) in locked_packages(RUNTIME).items())
    assert all(each["hashes"] and each["purl"].startswith("pkg:pypi/") for each in bill["components"])
