"""Messages for researchers about failed updates. Exception names and tracebacks go to the log only."""

import errno
import re

import numpy as np
from django.db import DatabaseError
from django.utils.translation import gettext, gettext_noop

from modelling.training.settings import InvalidSettings
from modelling.training.size import memory_limit

FEW_ITEMS = gettext_noop("Waiting for items: a ranking needs at least two active items.")
NO_LABELS = gettext_noop("Waiting for the first judgements. Skipped pairs and undone answers do not count.")

OUT_OF_MEMORY = gettext_noop(
    "Out of memory: the model may use at most %(most)s MB on this server. Use fewer components. "
    "The last good version is shown."
)
OUT_OF_MEMORY_PATTERN = re.compile(re.escape(OUT_OF_MEMORY).replace(re.escape("%(most)s"), r"([\d,]+)"))
KILLED = gettext_noop(
    "The update was killed several times in a row; the study may be too large for this server's memory. "
    "Concord tries again every ten minutes. The last good version is shown."
)
DISK_FULL = gettext_noop(
    "The disk is full, so the new version could not be stored. Free some space. The last good version is shown."
)
NOT_FINITE = gettext_noop(
    "The fit gave scores that are not finite numbers. Check the items' numeric columns for extreme values. "
    "The last good version is shown."
)
DATABASE = gettext_noop(
    "The database rejected the new version. Concord will try again. The last good version is shown."
)
UNEXPECTED = gettext_noop(
    "The model could not be updated; the server's log has the details. Concord tries again at increasing intervals. "
    "The last good version is shown."
)
LAST_GOOD = gettext_noop("The last good version is shown.")

LOADER_MEMORY_ERRORS = ("failed to map segment", "cannot allocate memory", "Cannot allocate memory")
DISK_FULL_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class NonFiniteScores(ArithmeticError):
    """A fit gave a score that is not a finite number."""


def failure_message(error: BaseException) -> str:
    """One or two sentences about why an update failed."""
    if isinstance(error, InvalidSettings):
        return str(error)
    if _is_out_of_memory(error):
        return str(OUT_OF_MEMORY) % {"most": f"{memory_limit() // 10**6:,}"}
    if isinstance(error, OSError) and error.errno in DISK_FULL_ERRORS:
        return str(DISK_FULL)
    if isinstance(error, ArithmeticError | np.linalg.LinAlgError):
        return str(NOT_FINITE)
    if isinstance(error, ValueError) and _is_raised_by_modelling(error):
        return f"{error} {LAST_GOOD}"
    return str(DATABASE if isinstance(error, DatabaseError) else UNEXPECTED)


def translate_message(message: str, *, has_version: bool = True) -> str:
    """Translate a stored message into the reader's language, keeping the number it may contain.

    Before the first version, the sentence about the last good one is left out.
    """
    if found := OUT_OF_MEMORY_PATTERN.fullmatch(message):
        translated = gettext(OUT_OF_MEMORY) % {"most": found[1]}
    else:
        translated = gettext(message) if message else ""
    return translated if has_version else translated.removesuffix(gettext(LAST_GOOD)).rstrip()


def _is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out, even while loading a library or mapping a file, which raise other exceptions."""
    if isinstance(error, ImportError):
        return any(text in str(error) for text in LOADER_MEMORY_ERRORS)
    return isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM)


def _is_raised_by_modelling(error: ValueError) -> bool:
    """Whether our own code raised the error: only then is its message a full sentence for users."""
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    return frame is not None and str(frame.tb_frame.f_globals.get("__name__", "")).startswith("modelling.")
