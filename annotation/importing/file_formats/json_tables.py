"""Parse JSON into rows: one object per line, a list of objects, or a table exported by Concord.

The names in the first object are the header.
"""

import json
from collections.abc import Iterator
from typing import Any

from django.utils.translation import gettext as _

from annotation.importing.problems import ImportFileError, Problem, quote

OPENING = ("{", "[")
NESTED = {"features": "feature:", "metadata": ""}  # nested objects that become columns, and their column prefix
EXPORT_START = '"rows":['  # the end of the first line of a table exported by Concord

Row = tuple[int, list[str]]


def is_json(first_line: str) -> bool:
    return first_line.lstrip().startswith(OPENING)


def json_records(lines: Iterator[str]) -> Iterator[Row]:
    """Yield the header, then each object's values in that order, each with its first line."""
    header: list[str] = []
    for line, value in _objects(lines):
        flat = _flatten(value, line)
        if not header:
            header = list(flat)
            yield line, header
        elif flat.keys() != set(header):
            name = quote(next(iter(flat.keys() ^ set(header))))
            message = _("Some objects lack the name %(name)s; every object needs the same names as the first.")
            raise ImportFileError(problems=[Problem(line, "", message % {"name": name})])
        yield line, [flat[name] for name in header]


def _objects(lines: Iterator[str]) -> Iterator[tuple[int, Any]]:
    first = next((line for line in lines if line.strip()), "")
    if first.lstrip().startswith("["):
        yield from _list_entries(first + "".join(lines))
        return
    if first.rstrip().endswith(EXPORT_START):
        yield from _list_entries("[\n" + "".join(lines).rstrip().removesuffix("}"))
        return
    yield 1, _parse(first, 1)
    for number, line in enumerate(lines, start=2):
        if line.strip():
            yield number, _parse(line, number)


def _list_entries(text: str) -> Iterator[tuple[int, Any]]:
    """Decode the entries of a list one by one, so that only one of them is in memory."""
    decoder, position, line = json.JSONDecoder(), text.index("[") + 1, 1
    while True:
        start = _skip_separators(text, position)
        line += text.count("\n", position, start)
        if text[start : start + 1] == "]" and not text[start + 1 :].strip():
            return
        try:
            value, position = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            raise _json_error(line) from None
        yield line, value
        line += text.count("\n", start, position)


def _skip_separators(text: str, position: int) -> int:
    while text[position : position + 1] in (" ", "\t", "\r", "\n", ","):
        position += 1
    return position


def _parse(text: str, line: int) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise _json_error(line) from None


def _json_error(line: int) -> ImportFileError:
    return ImportFileError(problems=[Problem(line, "", _("This is not a JSON object, or it is not closed."))])


def _flatten(value: Any, line: int) -> dict[str, str]:
    if not isinstance(value, dict):
        raise _json_error(line)
    flat: dict[str, str] = {}
    for name, cell in value.items():
        if name in NESTED and isinstance(cell, dict):
            flat |= {f"{NESTED[name]}{inner}": _cell_text(nested) for inner, nested in cell.items()}
        else:
            flat[str(name)] = _cell_text(cell)
    return flat


def _cell_text(cell: Any) -> str:
    if cell is None:
        return ""
    text = cell if isinstance(cell, str) else json.dumps(cell, ensure_ascii=False)
    if not text.isprintable() and ("\0" in text or any("\ud800" <= c <= "\udfff" for c in text)):
        raise ImportFileError(_("The file contains characters that are not allowed in text."))
    return text
