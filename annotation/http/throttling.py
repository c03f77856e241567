"""Rate limits. Judgements are counted per worker, because a whole crowd may share one address.

Counters are never evicted before their window ends. Processes share them through Redis (RATE_LIMITS = "cache"); while
Redis is unavailable, and on the embedded profile with its one web process, each process counts in its own memory.
"""

import logging
import time
from collections import Counter
from hashlib import sha256
from threading import Lock

from django.conf import settings
from django.core.cache import cache
from django.http import HttpRequest

from annotation.http.client_address import client_address
from annotation.models import Worker

log = logging.getLogger("concord.throttling")

REQUESTS_PER_SECOND = 20  # per worker
JOINS_PER_MINUTE = 600  # per address; a platform may send five hundred workers in two minutes
MAX_RETURNS = 60  # attempts to enter a return code, per address in 15 minutes; a class may share one address
MAX_RETURNS_OF_CODE = 10  # attempts with the same code in 15 minutes
MAX_PASSWORD_RESETS = 20  # per address in 15 minutes
MAX_EMAILS = 3  # per mailbox in an hour
MAX_PASSWORD_ATTEMPTS = 10  # per account in 15 minutes, when changing the password
MAX_CODE_ATTEMPTS = 10  # second-factor codes per account in 15 minutes
MAX_DEVICE_ATTEMPTS = 10  # log-ins from a known device in 15 minutes
MAX_INVITATIONS = 60  # per owner in an hour
MAX_INVITATION_LISTS = 20  # lists of people to invite, per owner in an hour
MAX_PERSONAL_LINKS = 600  # personal links opened, per address in 15 minutes; a class may share one address
MAX_NEW_NAMES = 40  # attempts to create an account with one invitation in an hour
MAX_IMPORTS = 60  # uploaded files per user in an hour
MAX_ACCEPTANCES = 30  # per address in a minute
MAX_EXPORTS = 100  # small files per user in an hour; large files are limited by their job rows
API_CALLS_PER_SECOND = 100  # per API token; one token may serve a whole crowd


def worker_is_too_fast(worker: Worker) -> bool:
    return _count(f"posts-{worker.pk}", seconds=1) > REQUESTS_PER_SECOND


def too_many_joins(request: HttpRequest) -> bool:
    return _count(f"joins-{client_address(request)}", seconds=60) > JOINS_PER_MINUTE


def too_many_returns(request: HttpRequest, code_digest: str) -> bool:
    """Count an attempt to enter a return code, by address and by code, whether or not the code is valid."""
    by_address = _count(f"returns-{client_address(request)}", seconds=900)
    by_code = _count(f"returns-of-{code_digest}", seconds=900)
    return by_address > MAX_RETURNS or by_code > MAX_RETURNS_OF_CODE


def too_many_resets(request: HttpRequest) -> bool:
    return _count(f"resets-{client_address(request)}", seconds=900) > MAX_PASSWORD_RESETS


def too_many_emails(email: str) -> bool:
    """Count an email to this mailbox, with or without an account, so that the limit does not reveal which have one."""
    return _count(f"emails-{sha256(email.casefold().encode()).hexdigest()}", seconds=3600) > MAX_EMAILS


def too_many_password_attempts(user: str) -> bool:
    return _count(f"password-attempts-{user}", seconds=900) > MAX_PASSWORD_ATTEMPTS


def too_many_code_attempts(user: int) -> bool:
    return _count(f"code-attempts-{user}", seconds=900) > MAX_CODE_ATTEMPTS


def too_many_device_attempts(device: str) -> bool:
    return _count(f"device-attempts-{device}", seconds=900) > MAX_DEVICE_ATTEMPTS


def too_many_invitations(user: int) -> bool:
    return _count(f"invitations-{user}", seconds=3600) > MAX_INVITATIONS


def too_many_invitation_lists(user: int) -> bool:
    return _count(f"invitation-lists-{user}", seconds=3600) > MAX_INVITATION_LISTS


def too_many_personal_links(request: HttpRequest) -> bool:
    return _count(f"personal-links-{client_address(request)}", seconds=900) > MAX_PERSONAL_LINKS


def too_many_acceptances(request: HttpRequest) -> bool:
    return _count(f"acceptances-{client_address(request)}", seconds=60) > MAX_ACCEPTANCES


def too_many_new_names(invitation: int) -> bool:
    """Limit how many user names the holder of an invitation can try."""
    return _count(f"names-{invitation}", seconds=3600) > MAX_NEW_NAMES


def too_many_imports(user: int) -> bool:
    return _count(f"imports-{user}", seconds=3600) > MAX_IMPORTS


def too_many_exports(user: int) -> bool:
    return _count(f"exports-{user}", seconds=3600) > MAX_EXPORTS


def too_many_api_calls(token: int) -> bool:
    return _count(f"calls-{token}", seconds=1) > API_CALLS_PER_SECOND


def _count(name: str, seconds: int) -> int:
    """Count this request in the current window of this length."""
    window = int(time.time() // seconds)
    if settings.RATE_LIMITS == "cache":
        try:
            return _count_in_cache(f"{name}-{window}", 2 * seconds)
        except Exception as error:
            log.warning("requests are counted in memory: %s", type(error).__name__)
    return memory.count(name, seconds, window)


def _count_in_cache(key: str, timeout: int) -> int:
    return 1 if cache.add(key, 1, timeout=timeout) else int(cache.incr(key))


class MemoryCounters:
    """In-process counters; all counters of a window are dropped when the next window of that length starts."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._windows: dict[int, tuple[int, Counter[str]]] = {}  # the current window and its counts, by window length

    def count(self, name: str, seconds: int, window: int) -> int:
        with self._lock:
            current, counts = self._windows.get(seconds, (window, Counter()))
            if current != window:
                counts = Counter()
            self._windows[seconds] = window, counts
            counts[name] += 1
            return counts[name]

    def clear(self) -> None:
        with self._lock:
            self._windows.clear()


memory = MemoryCounters()
