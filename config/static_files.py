"""Static files with content hashes in their names; scripts and styles from installed packages."""

import hashlib
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.staticfiles.finders import BaseFinder, get_finders
from django.core.files.storage import FileSystemStorage
from django.core.management import call_command
from whitenoise.storage import CompressedManifestStaticFilesStorage


class HashedStaticFiles(CompressedManifestStaticFilesStorage):
    """Static files whose scripts also import each other by hashed name, so that browsers never mix two releases."""

    support_js_module_import_aggregation = True
    manifest_strict = False  # before `collectstatic` has run, a page without style is better than an error


class PackageFiles(BaseFinder):
    """Find scripts and styles in installed packages, so that they are neither committed nor downloaded."""

    files = {
        "plotly/package_data": ["plotly.min.js"],
        "ninja/static": [f"ninja/swagger-ui{end}" for end in ("-bundle.js", "-bundle.js.map", ".css", ".css.map")],
    }

    def __init__(self) -> None:
        self.storages = {name: _package_storage(folder) for folder, names in self.files.items() for name in names}

    def check(self, **kwargs: Any) -> list[Any]:
        return []

    def find(self, path: str, find_all: bool = False, **kwargs: Any) -> Any:
        if path not in self.storages:
            return []
        found = self.storages[path].path(path)
        return [found] if find_all else found

    def list(self, ignore_patterns: Iterable[str] | None) -> Iterator[tuple[str, FileSystemStorage]]:
        yield from self.storages.items()


def _package_storage(folder: str) -> FileSystemStorage:
    """Storage for a folder inside a package, located without importing the package."""
    package, _, path = folder.partition("/")
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"{package} is not installed; see requirements.lock.")
    return FileSystemStorage(Path(spec.origin).parent / path)


def collect() -> None:
    """Run collectstatic if any static file has changed since the last time."""
    marker, fingerprint = Path(settings.STATIC_ROOT) / ".collected", _fingerprint()
    if not marker.exists() or marker.read_text() != fingerprint:
        call_command("collectstatic", interactive=False, verbosity=0)
        marker.write_text(fingerprint)


def _fingerprint() -> str:
    digest = hashlib.sha256()
    for finder in get_finders():
        for name, storage in finder.list([]):
            path = Path(storage.path(name))
            digest.update(f"{path}:{path.stat().st_size}:{path.stat().st_mtime_ns}\n".encode())
    return digest.hexdigest()
