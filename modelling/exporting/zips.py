"""Zip files whose bytes depend on nothing but their content: no dates, no machine, one order."""

import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from modelling.exporting.formats import Basket

NO_DATE = (1980, 1, 1, 0, 0, 0)
UNIX, READABLE = 3, 0o100644 << 16
CHUNK = 1 << 20


def zipped(files: Mapping[str, Callable[[], Iterable[bytes]]]) -> Iterator[bytes]:
    """A zip of these files in this order, piece by piece; each is asked for its own pieces as it is packed."""
    basket = Basket()
    with zipfile.ZipFile(basket, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, pieces in files.items():
            with archive.open(_entry(name), "w", force_zip64=True) as target:
                for piece in pieces():
                    target.write(piece)
                    yield basket.take()
    yield basket.take()


def read(path: Path) -> Iterator[bytes]:
    """The bytes of a file, piece by piece."""
    with path.open("rb") as file:
        while piece := file.read(CHUNK):
            yield piece


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, NO_DATE)
    entry.compress_type, entry.create_system, entry.external_attr = zipfile.ZIP_DEFLATED, UNIX, READABLE
    return entry
