"""What went wrong, in words for the people who run a study. Names of errors and tracebacks belong to the log."""

import errno
import os
import re
import resource

import numpy as np
from django.db import DatabaseError
from django.utils.translation import gettext, gettext_noop

from modelling.model_settings import Unusable

FEW_ITEMS = gettext_noop("Waiting: a ranking needs at least two items that are switched on.")
NO_LABELS = gettext_noop("Waiting for the first judgements. Skipped pairs and answers taken back do not count.")

TOO_LARGE = gettext_noop(
    "This study is too large: the model may use at most %(most)s MB of memory here. Fewer components or inducing "
    "points need less. The last good version is shown."
)
LIMITED = re.compile(re.escape(TOO_LARGE).replace(re.escape("%(most)s"), r"([\d,]+)"))
KILLED = gettext_noop(
    "The update was stopped from outside several times in a row: this study may be too large for the memory limit of "
    "this machine. It is tried again every ten minutes; the last good version is shown."
)
DISK_FULL = gettext_noop("The disk is full, so no new version could be stored. The last good version is shown.")
NO_SENSE = gettext_noop(
    "The numbers of this study could not be brought into a ranking: look for extreme values among its own columns. "
    "The last good version is shown."
)
DATABASE = gettext_noop("The database did not take the new version. It is tried again; the last good one is shown.")
UNEXPECTED = gettext_noop(
    "The model could not be updated, for a reason that is in the server's log. It is tried again with growing pauses; "
    "the last good version is shown."
)

LAST_GOOD = gettext_noop("The last good version is shown.")

NO_ROOM = ("failed to map segment", "cannot allocate memory", "Cannot allocate memory")
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class NoNumbers(ArithmeticError):
    """A fit gave something that is not a number."""


def words_for(error: BaseException) -> str:
    """One or two sentences for a person."""
    if isinstance(error, Unusable):
        return str(error)
    if _is_out_of_memory(error):
        return str(TOO_LARGE) % {"most": f"{memory_limit() // 10**6:,}"}
    if isinstance(error, OSError) and error.errno in FULL:
        return str(DISK_FULL)
    if isinstance(error, ArithmeticError | np.linalg.LinAlgError):
        return str(NO_SENSE)
    if isinstance(error, ValueError) and _is_said_by_us(error):
        return f"{error} {LAST_GOOD}"
    return str(DATABASE if isinstance(error, DatabaseError) else UNEXPECTED)


def memory_limit() -> int:
    """Bytes that this process may have: what it was limited to, else all of the machine's."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return machine if limit == resource.RLIM_INFINITY else min(limit, machine)


def translated(words: str) -> str:
    """The stored words in the reader's language, with the number that was put into them."""
    if found := LIMITED.fullmatch(words):
        return gettext(TOO_LARGE) % {"most": found[1]}
    return gettext(words) if words else ""


def _is_out_of_memory(error: BaseException) -> bool:
    """Memory may also end while a library is loaded or a file is mapped, which then say so in their own way."""
    if isinstance(error, ImportError):
        return any(words in str(error) for words in NO_ROOM)
    return isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM)


def _is_said_by_us(error: ValueError) -> bool:
    """Our own modules refuse what they cannot take in whole sentences; other people's speak to programmers."""
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    return frame is not None and str(frame.tb_frame.f_globals.get("__name__", "")).startswith("modelling.")
