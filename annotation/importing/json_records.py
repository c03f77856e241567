"""JSON as a table: objects on lines of their own, a list of them, or a table that Concord wrote.

The first object's names are the header.
"""

import json
from collections.abc import Iterator
from typing import Any

from django.utils.translation import gettext as _

from annotation.importing.problems import ImportRefused, Problem, quoted

BEGINNINGS = ("{", "[")
INSIDE = {"features": "feature:", "metadata": ""}  # objects whose own names become columns, and what goes before them

ROWS = '"rows":['  # how the first line of a table that Concord wrote ends

Row = tuple[int, list[str]]


def is_json(first: str) -> bool:
    return first.lstrip().startswith(BEGINNINGS)


def json_records(lines: Iterator[str]) -> Iterator[Row]:
    """The header, then each object's values in its order, each with the line it begins on."""
    header: list[str] = []
    for line, value in _objects(lines):
        flat = _flat(value, line)
        if not header:
            header = list(flat)
            yield line, header
        elif flat.keys() != set(header):
            odd = next(iter(flat.keys() ^ set(header)))
            words = _("%(name)s stands only here or only in the first object; all need the same names.")
            raise ImportRefused(problems=[Problem(line, "", words % {"name": quoted(odd)})])
        yield line, [flat[name] for name in header]


def _objects(lines: Iterator[str]) -> Iterator[tuple[int, Any]]:
    first = next((line for line in lines if line.strip()), "")
    if first.lstrip().startswith("["):
        yield from _listed(first + "".join(lines))
        return
    if first.rstrip().endswith(ROWS):
        yield from _listed("[\n" + "".join(lines).rstrip().removesuffix("}"))
        return
    yield 1, _parsed(first, 1)
    for number, line in enumerate(lines, start=2):
        if line.strip():
            yield number, _parsed(line, number)


def _listed(text: str) -> Iterator[tuple[int, Any]]:
    """The entries of a list, one after the other, so that only one of them is in memory."""
    decoder, place, line = json.JSONDecoder(), text.index("[") + 1, 1
    while True:
        start = _skipped(text, place)
        line += text.count("\n", place, start)
        if text[start : start + 1] == "]" and not text[start + 1 :].strip():
            return
        try:
            value, place = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            raise _unreadable(line) from None
        yield line, value
        line += text.count("\n", start, place)


def _skipped(text: str, place: int) -> int:
    while text[place : place + 1] in (" ", "\t", "\r", "\n", ","):
        place += 1
    return place


def _parsed(text: str, line: int) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise _unreadable(line) from None


def _unreadable(line: int) -> ImportRefused:
    return ImportRefused(problems=[Problem(line, "", _("This is not a JSON object, or it is not closed."))])


def _flat(value: Any, line: int) -> dict[str, str]:
    if not isinstance(value, dict):
        raise _unreadable(line)
    flat: dict[str, str] = {}
    for name, cell in value.items():
        if name in INSIDE and isinstance(cell, dict):
            flat |= {f"{INSIDE[name]}{inner}": _text(own) for inner, own in cell.items()}
        else:
            flat[str(name)] = _text(cell)
    return flat


def _text(cell: Any) -> str:
    if cell is None:
        return ""
    text = cell if isinstance(cell, str) else json.dumps(cell, ensure_ascii=False)
    if not text.isprintable() and ("\0" in text or any("\ud800" <= c <= "\udfff" for c in text)):
        raise ImportRefused(_("The file holds characters that no text can have."))
    return text
