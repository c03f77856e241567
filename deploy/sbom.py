"""Print a software bill of materials (CycloneDX 1.5, JSON) of the locked packages: `python deploy/sbom.py > sbom.json`.

Versions and hashes come from requirements.lock, licences from the installed packages. Any audit tool that reads
CycloneDX can compare it with current advisories; this script needs no network.
"""

import json
import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PIN = re.compile(r"^(?P<name>[A-Za-z0-9_.-]+)(?:\[[^\]]*\])?==(?P<version>[^\s;\\]+)")
HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


def locked_packages(lock: Path) -> dict[str, tuple[str, list[str]]]:
    """The version and the hashes of each package in a lock file."""
    packages: dict[str, tuple[str, list[str]]] = {}
    for line in lock.read_text(encoding="utf-8").splitlines():
        if pin := PIN.match(line):
            name = pin["name"].lower().replace("_", "-")
            packages[name] = (pin["version"], [])
        packages[name][1].extend(HASH.findall(line))
    return packages


def licence(name: str) -> list[dict[str, Any]]:
    """The licence that the installed package declares."""
    try:
        declared = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return []
    text = declared.get("License-Expression") or declared.get("License") or ""
    return [{"license": {"name": text.splitlines()[0][:100]}}] if text.strip() else []


def component(name: str, version: str, hashes: list[str]) -> dict[str, Any]:
    purl = f"pkg:pypi/{name}@{version}"
    return {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": version,
        "purl": purl,
        "hashes": [{"alg": "SHA-256", "content": each} for each in hashes],
        "licenses": licence(name),
    }


def bill_of_materials() -> dict[str, Any]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    packages = locked_packages(ROOT / "requirements.lock")
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {"type": "application", "name": project["name"], "version": project["version"]}},
        "components": [component(name, *found) for name, found in sorted(packages.items())],
    }


if __name__ == "__main__":
    json.dump(bill_of_materials(), sys.stdout, indent=1)
    sys.stdout.write("\n")
