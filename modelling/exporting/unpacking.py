"""An archive that somebody brings: opened only if it is one of ours, whole, and no larger than it says.

Nothing is believed: names are those of a fixed list, sizes are counted while unpacking, every checksum is compared.
"""

import json
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from modelling.exporting.archive import FORMAT, FORMAT_VERSION, MANIFEST, NAMES, SUMS, sums_in

MOST_BYTES = 4_000_000_000  # unpacked
MOST_RATIO = 200  # how many times smaller a file may have been packed; ours reach about 20
SMALL = 1_000_000  # below this a ratio says nothing
MOST_LINE = 2_000_000
CHUNK = 1 << 20
UNREADABLE = (OSError, EOFError, RuntimeError, NotImplementedError, zipfile.BadZipFile, zlib.error)


class NoArchive(Exception):
    """The file cannot be checked; the message says why. Nothing was changed."""


def unpack(path: Path, folder: Path) -> dict[str, Any]:
    """The files of the archive are in the folder, and are those that were packed; returns the manifest."""
    try:
        with zipfile.ZipFile(path) as archive:
            entries = _entries(archive)
            for entry in entries:
                _extract(archive, entry, folder / entry.filename)
    except FileNotFoundError:
        raise NoArchive(f"There is no file {path}.") from None
    except UNREADABLE as error:
        raise NoArchive(f"{path} is not a zip file, or it is damaged ({error}).") from None
    if (folder / SUMS).read_bytes() != sums_in(folder).encode():
        raise NoArchive(f"{path.name} is damaged or was changed: its files are not those its checksums speak of.")
    return _manifest(folder / MANIFEST)


def _entries(archive: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
    """Exactly our files, each once, and not too large."""
    entries = archive.infolist()
    if sorted(entry.filename for entry in entries) != sorted(NAMES):
        raise NoArchive("This zip file is not an archive of Concord: it does not hold the files that one has.")
    if sum(entry.file_size for entry in entries) > MOST_BYTES:
        raise NoArchive(f"The archive would unpack to more than {MOST_BYTES // 10**9} GB. It was not opened.")
    for entry in entries:
        if entry.file_size > SMALL and entry.file_size > MOST_RATIO * max(entry.compress_size, 1):
            raise NoArchive(f"{entry.filename} is packed tighter than any honest file. The archive was not opened.")
    return entries


def _extract(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, target: Path) -> None:
    """No more than was announced, whatever the file holds."""
    left = entry.file_size
    with archive.open(entry) as source, target.open("wb") as file:
        while chunk := source.read(CHUNK):
            left -= len(chunk)
            if left < 0:
                raise NoArchive(f"{entry.filename} is larger than it says. The archive was not opened.")
            file.write(chunk)


def _manifest(path: Path) -> dict[str, Any]:
    if path.stat().st_size > MOST_LINE:
        raise NoArchive("The manifest of this archive is too long to be one.")
    manifest = parsed(path.read_bytes(), MANIFEST)
    if manifest.get("format") != FORMAT:
        raise NoArchive("This zip file is not an archive of Concord: its manifest says something else.")
    if manifest.get("format_version") != FORMAT_VERSION:
        told = manifest.get("format_version")
        raise NoArchive(f"The archive has format {told!r}; this Concord reads format {FORMAT_VERSION}.")
    return manifest


def lines_of(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects of a file of JSON lines, each with the words for where it stands."""
    with path.open("rb") as file:
        number = 0
        while line := file.readline(MOST_LINE):
            number += 1
            yield f"line {number} of {path.name}", parsed(line, f"Line {number} of {path.name}")


def parsed(said: bytes, where: str) -> dict[str, Any]:
    try:
        value = json.loads(said)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise NoArchive(f"{where} cannot be read: it is not a JSON object.")
    return value
