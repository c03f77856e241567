"""Single cells: keys, names and numbers, each with a plain word on what is wrong with it."""

import math
import re
from collections.abc import Container

from django.utils.translation import gettext as _

from annotation.importing.problems import quoted

NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")


def bare(value: str, known: Container[str]) -> str:
    """The value without the apostrophe that exports put before what a spreadsheet would run, if that is known here."""
    return value[1:] if value not in known and value.startswith("'") and value[1:] in known else value


def wrong_with_name(value: str, longest: int) -> str:
    """Why this cannot be a key or a worker's name, or nothing."""
    if not value:
        return _("This cell is empty.")
    if len(value) > longest:
        return _("At most %(longest)s characters fit here; this cell has %(length)s.") % _lengths(value, longest)
    if not value.isprintable():
        return _("%(value)s holds an invisible character or a line break.") % {"value": quoted(value)}
    return ""


def wrong_with_text(value: str, longest: int) -> str:
    """Why this cannot be read by workers, or nothing."""
    if not value.strip():
        return _("This cell is empty.")
    return wrong_with_length(value, longest)


def wrong_with_length(value: str, longest: int) -> str:
    if len(value) > longest:
        return _("At most %(longest)s characters fit here; this cell has %(length)s.") % _lengths(value, longest)
    return ""


def to_number(value: str) -> float:
    """A finite number written with a point; anything else is a ValueError that says what is wrong."""
    value = value.strip()
    if not value:
        raise ValueError(_("This cell is empty; a feature needs a number in every row."))
    if NUMBER.fullmatch(value.replace(",", ".", 1)) and "," in value:
        raise ValueError(_("%(value)s has a comma; write numbers with a point.") % {"value": quoted(value)})
    if not NUMBER.fullmatch(value) or not math.isfinite(float(value)):
        raise ValueError(_("%(value)s is not a finite number.") % {"value": quoted(value)})
    return float(value)


def _lengths(value: str, longest: int) -> dict[str, str]:
    return {"longest": f"{longest:,}", "length": f"{len(value):,}"}
