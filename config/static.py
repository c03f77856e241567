"""Static files under names that carry a hash of their content, and the one file that comes out of a wheel."""

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
    """Scripts import each other by hashed names too, so that a new release never mixes old and new modules."""

    support_js_module_import_aggregation = True
    manifest_strict = False  # before `collectstatic` has run a page without style is better than no page


class PlotlyScript(BaseFinder):
    """plotly's browser script, alone, as its wheel carries it: nothing of others is committed or fetched."""

    name = "plotly.min.js"

    def __init__(self) -> None:
        spec = find_spec("plotly")  # found, not imported: the server only hands the file out
        if spec is None or spec.origin is None:
            raise ModuleNotFoundError("plotly is not installed; see requirements.lock.")
        self.storage = FileSystemStorage(Path(spec.origin).parent / "package_data")

    def check(self, **kwargs: Any) -> list[Any]:
        return []

    def find(self, path: str, find_all: bool = False, **kwargs: Any) -> Any:
        if path != self.name:
            return []
        return [self.storage.path(path)] if find_all else self.storage.path(path)

    def list(self, ignore_patterns: Iterable[str] | None) -> Iterator[tuple[str, FileSystemStorage]]:
        yield self.name, self.storage


def collect() -> None:
    """Every static file is in STATIC_ROOT. Copies and compresses them only if any has changed since the last time."""
    note, found = Path(settings.STATIC_ROOT) / ".collected", _fingerprint()
    if not note.exists() or note.read_text() != found:
        call_command("collectstatic", interactive=False, verbosity=0)
        note.write_text(found)


def _fingerprint() -> str:
    digest = hashlib.sha256()
    for finder in get_finders():
        for name, storage in finder.list([]):
            path = Path(storage.path(name))
            digest.update(f"{path}:{path.stat().st_size}:{path.stat().st_mtime_ns}\n".encode())
    return digest.hexdigest()
