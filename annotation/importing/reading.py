"""Bytes become lines of text: by their content, never by the name of the file, and never as a guess."""

import codecs
import io
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from django.conf import settings
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from annotation.importing.problems import ImportRefused, NotText, Problem, TooLarge

CHUNK = 1 << 16
MAX_LINE = 2_000_000  # characters; bounds the memory that a file without line ends can take

KINDS = {
    b"PK\x03\x04": gettext_lazy("a zip archive or an Excel workbook"),
    b"PK\x05\x06": gettext_lazy("an empty zip archive"),
    b"\xd0\xcf\x11\xe0": gettext_lazy("an old Excel workbook"),
    b"\x89PNG": gettext_lazy("a picture (PNG)"),
    b"\xff\xd8\xff": gettext_lazy("a picture (JPEG)"),
    b"GIF8": gettext_lazy("a picture (GIF)"),
    b"%PDF-": gettext_lazy("a PDF document"),
    b"\x1f\x8b": gettext_lazy("a compressed file (gzip)"),
    b"7z\xbc\xaf": gettext_lazy("a compressed file (7z)"),
    b"\xfd7zXZ": gettext_lazy("a compressed file (xz)"),
    b"Rar!": gettext_lazy("a compressed file (RAR)"),
    b"SQLite format 3": gettext_lazy("a database (SQLite)"),
    b"PAR1": gettext_lazy("a Parquet file"),
}
MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
UTF32_MARKS = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)


def open_lines(path: Path) -> Iterator[str]:
    """The lines of a text file, with their ends (LF, CRLF or CR), after the whole file was found to be text."""
    check_size(path.stat().st_size)
    with path.open("rb") as file:
        head = file.read(CHUNK)
        _check_kind(head)
        encoding, mark = _encoding_of(head)
        file.seek(mark)
        _check_characters(file, encoding)
        file.seek(mark)
        text = io.TextIOWrapper(file, encoding=encoding, newline="")
        yield from _bounded_lines(text)


def check_size(size: int) -> None:
    if size > settings.IMPORT_MAX_BYTES:
        most = f"{settings.IMPORT_MAX_BYTES // 1_000_000}"
        raise TooLarge(_("The file is larger than %(most)s MB.") % {"most": most})


def _check_kind(head: bytes) -> None:
    for mark, kind in KINDS.items():
        if head.startswith(mark):
            raise NotText(_("This is %(kind)s, not a text file with columns.") % {"kind": kind})


def _encoding_of(head: bytes) -> tuple[str, int]:
    """The encoding and the length of the mark that says so. Without a mark it is UTF-8, or it is refused."""
    if head.startswith(UTF32_MARKS):
        raise ImportRefused(_("The file is in the encoding UTF-32, which is not read here. Save it as UTF-8."))
    for mark, encoding in MARKS:
        if head.startswith(mark):
            return encoding, len(mark)
    return "utf-8", 0


def _check_characters(file: BinaryIO, encoding: str) -> None:
    """Every byte belongs to a character of this encoding, and none is NUL."""
    decoder = io.IncrementalNewlineDecoder(codecs.getincrementaldecoder(encoding)(), translate=True)
    line = 1
    while True:
        chunk = file.read(CHUNK)
        try:
            text = decoder.decode(chunk, final=not chunk)
        except UnicodeDecodeError as error:
            raise _undecodable(error, line, encoding) from None
        if "\0" in text:
            line += text[: text.index("\0")].count("\n")
            message = _("There is a NUL character here. This is no text, or UTF-16 without its mark; save it as UTF-8.")
            raise ImportRefused(_("The file is not plain text."), [Problem(line, "", message)])
        if not chunk:
            return
        line += text.count("\n")


def _undecodable(error: UnicodeDecodeError, line: int, encoding: str) -> ImportRefused:
    good = error.object[: error.start].decode(encoding, "ignore").replace("\r\n", "\n").replace("\r", "\n")
    name = "UTF-8" if encoding == "utf-8" else "UTF-16"
    message = _("The byte 0x%(byte)02X is not %(name)s.") % {"byte": error.object[error.start], "name": name}
    if encoding == "utf-8":
        message += " " + _("The file seems to be in Latin-1 or Windows-1252; save it as “CSV UTF-8”.")
    title = _("The file is not in the encoding %(name)s.") % {"name": name}
    return ImportRefused(title, [Problem(line + good.count("\n"), "", message)])


def _bounded_lines(text: io.TextIOWrapper) -> Iterator[str]:
    number = 0
    while line := text.readline(MAX_LINE):
        number += 1
        if len(line) == MAX_LINE and not line.endswith(("\n", "\r")):
            most = f"{MAX_LINE:,}"
            message = _("This line is longer than %(most)s characters.") % {"most": most}
            raise ImportRefused(problems=[Problem(number, "", message)])
        yield line
