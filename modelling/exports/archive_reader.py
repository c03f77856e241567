"""Open an archive safely: only Concord's own file names, within size limits, with matching checksums."""

import json
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from modelling.exports.archive import CHECKSUMS, FILES, FORMAT, FORMAT_VERSION, MANIFEST, format_checksums

MAX_BYTES = 4_000_000_000  # unpacked
MAX_COMPRESSION_RATIO = 200  # Concord's own archives reach about 20
MIN_BYTES_FOR_RATIO = 1_000_000  # the ratio of smaller files means nothing
MAX_LINE = 2_000_000
CHUNK_SIZE = 1 << 20
ZIP_ERRORS = (OSError, EOFError, RuntimeError, NotImplementedError, zipfile.BadZipFile, zlib.error)


class ArchiveError(Exception):
    """The archive cannot be read. The message says why; nothing was changed."""


def unpack(path: Path, folder: Path) -> dict[str, Any]:
    """Unpack the archive into the folder, compare its checksums and return the manifest."""
    try:
        with zipfile.ZipFile(path) as archive:
            entries = _check_entries(archive)
            for entry in entries:
                _extract(archive, entry, folder / entry.filename)
    except FileNotFoundError:
        raise ArchiveError(f"There is no file {path}.") from None
    except ZIP_ERRORS as error:
        raise ArchiveError(f"{path} is not a zip file, or it is damaged ({error}).") from None
    if (folder / CHECKSUMS).read_bytes() != format_checksums(folder).encode():
        raise ArchiveError(f"{path.name} is damaged or was changed: its files do not match its checksums.")
    return _read_manifest(folder / MANIFEST)


def _check_entries(archive: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
    """Return the entries if they are exactly the expected files, each once, within the size limits."""
    entries = archive.infolist()
    if sorted(entry.filename for entry in entries) != sorted(FILES):
        raise ArchiveError("This zip file is not a Concord archive: its list of files differs.")
    if sum(entry.file_size for entry in entries) > MAX_BYTES:
        raise ArchiveError(f"The archive would unpack to more than {MAX_BYTES // 10**9} GB. It was not opened.")
    for entry in entries:
        ratio_counts = entry.file_size > MIN_BYTES_FOR_RATIO
        if ratio_counts and entry.file_size > MAX_COMPRESSION_RATIO * max(entry.compress_size, 1):
            raise ArchiveError(f"{entry.filename} has a suspicious compression ratio. The archive was not opened.")
    return entries


def _extract(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, target: Path) -> None:
    """Write one file, but never more bytes than the entry announces."""
    left = entry.file_size
    with archive.open(entry) as source, target.open("wb") as file:
        while chunk := source.read(CHUNK_SIZE):
            left -= len(chunk)
            if left < 0:
                raise ArchiveError(f"{entry.filename} is larger than the archive says. The archive was not opened.")
            file.write(chunk)


def _read_manifest(path: Path) -> dict[str, Any]:
    if path.stat().st_size > MAX_LINE:
        raise ArchiveError("The manifest of this archive is too large.")
    manifest = _parse_object(path.read_bytes(), MANIFEST)
    if manifest.get("format") != FORMAT:
        raise ArchiveError("This zip file is not a Concord archive: its manifest names another format.")
    version = manifest.get("format_version")
    if version != FORMAT_VERSION:
        raise ArchiveError(f"The archive has format version {version!r}; this Concord reads {FORMAT_VERSION}.")
    return manifest


def read_json_lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the objects of a JSON lines file, each with a description of its place for error messages."""
    with path.open("rb") as file:
        number = 0
        while line := file.readline(MAX_LINE):
            number += 1
            yield f"line {number} of {path.name}", _parse_object(line, f"Line {number} of {path.name}")


def _parse_object(content: bytes, place: str) -> dict[str, Any]:
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise ArchiveError(f"{place} cannot be read: it is not a JSON object.")
    return value
