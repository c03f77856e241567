"""Letters to researchers. They are sent beside the request: nobody waits, and nobody can tell from the time it takes
whether there was anybody to write to."""

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from django.conf import settings
from django.core.mail import send_mail
from django.http import HttpRequest

log = logging.getLogger("concord.letters")

_sender = ThreadPoolExecutor(1, thread_name_prefix="letters")


def address_of(request: HttpRequest, path: str) -> str:
    """The path as a link for a letter: on the configured address, else on the host asked, which is one we allow."""
    return f"{settings.PUBLIC_ADDRESS}{path}" if settings.PUBLIC_ADDRESS else request.build_absolute_uri(path)


def send(to: str, subject: str, words: str) -> None:
    """The letter is on its way."""
    later(send_mail, " ".join(subject.split()), words, None, [to])


def later(work: Callable[..., Any], *args: Any, **more: Any) -> None:
    """Done by the one who posts letters; a letter that cannot be sent is a line in the log, without its address."""
    _sender.submit(_try, work, *args, **more)


def _try(work: Callable[..., Any], *args: Any, **more: Any) -> None:
    try:
        work(*args, **more)
    except Exception as error:  # the boundary of a background job
        log.error("a letter could not be sent: %s", type(error).__name__)
