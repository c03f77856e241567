"""Send email to researchers in a background thread.

The request does not wait, so its duration does not reveal whether an account exists.
"""

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from django.core.mail import send_mail

log = logging.getLogger("concord.email")

_executor = ThreadPoolExecutor(1, thread_name_prefix="email")


def send(to: str, subject: str, body: str) -> None:
    run_in_background(send_mail, " ".join(subject.split()), body, None, [to])


def run_in_background(send: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Call `send` in the email thread. A failure is logged without the address."""
    _executor.submit(_try, send, *args, **kwargs)


def _try(send: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    try:
        send(*args, **kwargs)
    except Exception as error:  # no caller can handle it in a background thread
        log.error("an email could not be sent: %s", type(error).__name__)
