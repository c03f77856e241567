"""Validate and parse single cells.

The `find_*_problem` functions return a message, or "" for a valid cell; `%(values)s` stands for the invalid cells.
"""

import math
import re
from collections.abc import Container
from contextlib import suppress
from datetime import UTC, datetime

from django.utils.translation import gettext as _

from annotation.importing.problems import format_count

MAX_MILLISECONDS = 2**31 - 1  # what the database can store
EARLIEST_YEAR, LATEST_YEAR = 1900, 2100
UNIX_SECONDS = (631_152_000, 4_102_444_800)  # 1990 to 2100; times in milliseconds are accepted too
TIME_FORMATS = (
    "%a %b %d %H:%M:%S %z %Y",  # Wed Apr 14 20:01:15 GMT 2010, the format of Mechanical Turk
    "%Y-%m-%d %H:%M:%S %z",
    "%Y/%m/%d %H:%M:%S",
    "%Y/%m/%d %H:%M",
    "%d.%m.%Y %H:%M:%S",
    "%d.%m.%Y %H:%M",
)
ZONES = {"UTC": "+0000", "GMT": "+0000", "EST": "-0500", "EDT": "-0400", "PST": "-0800", "PDT": "-0700"}
ZONE = re.compile(r"\b(" + "|".join(ZONES) + r")\b")
NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")


def strip_export_apostrophe(value: str, known: Container[str]) -> str:
    """Remove the apostrophe that exports put before formulas, if the value without it is known and this one is not."""
    return value[1:] if value not in known and value.startswith("'") and value[1:] in known else value


def find_name_problem(value: str, max_length: int) -> str:
    """Check an item key or a worker name."""
    if not value:
        return _("This cell is empty.")
    if problem := find_length_problem(value, max_length):
        return problem
    if not value.isprintable():
        return _("Invisible characters or line breaks in: %(values)s.")
    return ""


def find_text_problem(value: str, max_length: int) -> str:
    """Check a text that workers read."""
    return find_length_problem(value, max_length) if value.strip() else _("This cell is empty.")


def find_length_problem(value: str, max_length: int) -> str:
    if len(value) <= max_length:
        return ""
    message = _("This cell is too long; at most %(max_length)s characters are allowed.")
    return message % {"max_length": format_count(max_length)}


def parse_number(value: str) -> float:
    """Parse a finite number with a decimal point; a ValueError explains why it is not one."""
    value = value.strip()
    if not value:
        raise ValueError(_("This cell is empty; a feature needs a number in every row."))
    if NUMBER.fullmatch(value.replace(",", ".", 1)) and "," in value:
        raise ValueError(_("Decimal commas in: %(values)s. Use a decimal point."))
    if not NUMBER.fullmatch(value) or not math.isfinite(float(value)):
        raise ValueError(_("Not finite numbers: %(values)s."))
    return float(value)


def parse_time(value: str) -> datetime:
    """Parse ISO 8601, Unix time and a few unambiguous formats; a time without a zone is in UTC."""
    value = value.strip()
    moment = _parse_unix_time(value) if NUMBER.fullmatch(value) else None
    with suppress(ValueError):
        moment = moment or datetime.fromisoformat(value)
    if moment is None:
        zoned = ZONE.sub(lambda match: ZONES[match[0]], value)
        moment = next(filter(None, (_parse_format(zoned, each) for each in TIME_FORMATS)), None)
    if moment is not None and EARLIEST_YEAR <= moment.year <= LATEST_YEAR:
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    raise ValueError(_("Invalid times: %(values)s. Use a format such as 2026-03-01T14:30:00Z."))


def _parse_format(value: str, time_format: str) -> datetime | None:
    with suppress(ValueError):
        return datetime.strptime(value, time_format)  # noqa: DTZ007
    return None


def _parse_unix_time(value: str) -> datetime | None:
    seconds = float(value)
    first, last = UNIX_SECONDS
    if first * 1000 <= seconds <= last * 1000:
        seconds /= 1000
    return datetime.fromtimestamp(seconds, UTC) if first <= seconds <= last else None


def parse_milliseconds(value: str, *, per_unit: int = 1) -> int:
    """Parse a response time; `per_unit` is 1,000 for seconds."""
    number = float(value) if NUMBER.fullmatch(value.strip()) else -1.0
    if not 0 <= number * per_unit <= MAX_MILLISECONDS:
        raise ValueError(_("Invalid response times: %(values)s."))
    return round(number * per_unit)


def parse_seconds(value: str) -> int:
    """Parse a response time in seconds and return milliseconds."""
    return parse_milliseconds(value, per_unit=1000)
