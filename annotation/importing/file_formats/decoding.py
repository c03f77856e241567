"""Open a text file and decode its bytes into lines; the type is detected from the content, not from the name."""

import codecs
import io
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from django.conf import settings
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from annotation.importing.problems import FileTooLarge, ImportFileError, NotATextFile, Problem

CHUNK = 1 << 16
MAX_LINE = 2_000_000  # characters; limits the memory that a file without line ends can take

SIGNATURES = {
    b"PK\x05\x06": gettext_lazy("an empty zip archive"),
    b"\xd0\xcf\x11\xe0": gettext_lazy("an old Excel workbook (.xls)"),
    b"\x89PNG": gettext_lazy("an image (PNG)"),
    b"\xff\xd8\xff": gettext_lazy("an image (JPEG)"),
    b"GIF8": gettext_lazy("an image (GIF)"),
    b"%PDF-": gettext_lazy("a PDF document"),
    b"\x1f\x8b": gettext_lazy("a compressed file (gzip)"),
    b"7z\xbc\xaf": gettext_lazy("a compressed file (7z)"),
    b"\xfd7zXZ": gettext_lazy("a compressed file (xz)"),
    b"Rar!": gettext_lazy("a compressed file (RAR)"),
    b"SQLite format 3": gettext_lazy("a database (SQLite)"),
    b"PAR1": gettext_lazy("a Parquet file"),
}
BYTE_ORDER_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
WINDOWS_1252 = "cp1252"
UTF32_MARKS = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)


class NotDecodable(ImportFileError):
    """The bytes are not valid in the encoding that the file seems to have."""


def resolve_path(file_or_folder: str, name: str) -> Path:
    """Return the path of a file; in a folder such as UKPConvArg's, the path of the file with this name."""
    path = Path(file_or_folder)
    if path.is_dir():
        path = path / name
    if not path.is_file():
        raise ImportFileError(_("There is no file %(path)s.") % {"path": path})
    return path


def open_lines(path: Path, notes: list[str]) -> Iterator[str]:
    """Yield the lines of a text file with their ends (LF, CRLF or CR), after validating the whole file.

    A file that is not UTF-8 is read as Windows-1252, the encoding of most older CSV files, and a note says so.
    """
    check_size(path.stat().st_size)
    with path.open("rb") as file:
        head = file.read(CHUNK)
        _check_signature(head)
        encoding, mark_length = _detect_mark(head)
        file.seek(mark_length)
        try:
            _check_characters(file, encoding)
        except NotDecodable as error:
            encoding = _fallback_encoding(file, error)
            notes.append(_("The file is not UTF-8; it was read as Windows-1252. Check special characters below."))
        file.seek(mark_length)
        text = io.TextIOWrapper(file, encoding=encoding, newline="")
        yield from _bounded_lines(text)


def check_size(size: int) -> None:
    if size > settings.IMPORT_MAX_BYTES:
        limit = f"{settings.IMPORT_MAX_BYTES // 1_000_000}"
        raise FileTooLarge(_("The file is larger than %(limit)s MB.") % {"limit": limit})


def _check_signature(head: bytes) -> None:
    for signature, kind in SIGNATURES.items():
        if head.startswith(signature):
            raise NotATextFile(_("This is %(kind)s, not a text file with columns.") % {"kind": kind})


def _detect_mark(head: bytes) -> tuple[str, int]:
    """Return the encoding and the length of its byte order mark; without a mark it is UTF-8."""
    if head.startswith(UTF32_MARKS):
        raise ImportFileError(_("The file is encoded as UTF-32, which is not supported. Save it as UTF-8."))
    for mark, encoding in BYTE_ORDER_MARKS:
        if head.startswith(mark):
            return encoding, len(mark)
    return "utf-8", 0


def _check_characters(file: BinaryIO, encoding: str) -> None:
    """Check that the file decodes completely and has no NUL character."""
    decoder = io.IncrementalNewlineDecoder(codecs.getincrementaldecoder(encoding)(), translate=True)
    line = 1
    while True:
        chunk = file.read(CHUNK)
        try:
            text = decoder.decode(chunk, final=not chunk)
        except UnicodeDecodeError as error:
            raise _decoding_error(error, line, encoding) from None
        if "\0" in text:
            line += text[: text.index("\0")].count("\n")
            message = _(
                "This line contains a NUL character. The file is binary, or UTF-16 without a byte order mark; "
                "save it as UTF-8."
            )
            raise ImportFileError(_("The file is not plain text."), [Problem(line, "", message)])
        if not chunk:
            return
        line += text.count("\n")


def _decoding_error(error: UnicodeDecodeError, line: int, encoding: str) -> NotDecodable:
    before = error.object[: error.start].decode(encoding, "ignore").replace("\r\n", "\n").replace("\r", "\n")
    name = "UTF-8" if encoding == "utf-8" else "UTF-16"
    message = _("The byte 0x%(byte)02X is not valid %(name)s.") % {"byte": error.object[error.start], "name": name}
    title = _("The file is not valid %(name)s.") % {"name": name}
    return NotDecodable(title, [Problem(line + before.count("\n"), "", message)])


def _fallback_encoding(file: BinaryIO, error: NotDecodable) -> str:
    """Return Windows-1252 if the file could be in that encoding; raise `error` for damaged UTF-8 or UTF-16."""
    file.seek(0)
    content = file.read()
    text = content.decode("utf-8", "surrogateescape")
    readable = text.encode("utf-8", "ignore").decode()
    n_multibyte = len(readable) - len(readable.encode("ascii", "ignore"))
    n_invalid = len(text) - len(readable)
    if content.startswith(tuple(mark for mark, _name in BYTE_ORDER_MARKS)) or n_multibyte > n_invalid:
        raise error
    try:
        content.decode(WINDOWS_1252)
    except UnicodeDecodeError:
        raise error from None
    return WINDOWS_1252


def _bounded_lines(text: io.TextIOWrapper) -> Iterator[str]:
    number = 0
    while line := text.readline(MAX_LINE):
        number += 1
        if len(line) == MAX_LINE and not line.endswith(("\n", "\r")):
            message = _("This line is longer than %(limit)s characters.") % {"limit": f"{MAX_LINE:,}"}
            raise ImportFileError(problems=[Problem(number, "", message)])
        yield line
