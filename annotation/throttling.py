"""Floods cost the flooder. Answers are counted per worker: a whole crowd may sit behind one router."""

import logging
import time
from hashlib import sha256

from django.core.cache import cache
from django.http import HttpRequest

from annotation.models import Worker

log = logging.getLogger("concord.throttling")

PER_SECOND = 20  # requests of one worker
JOINS_PER_MINUTE = 600  # from one address: five hundred who come from a platform in two minutes, or a full lecture hall
RESETS = 20  # from one address in a quarter of an hour
LETTERS = 3  # to one mailbox in an hour
GUESSES = 10  # at one account's password in a quarter of an hour
INVITATIONS = 60  # by one owner in an hour
ACCEPTANCES = 30  # from one address in a minute
EXPORTS = 100  # small files that one person takes in an hour; large ones are counted by their rows
CALLS_PER_SECOND = 100  # of one API token: a front end for a whole crowd, or a script in a hurry


def too_fast(worker: Worker) -> bool:
    """Whether this worker has sent more than twenty requests in this second."""
    return _count(f"posts-{worker.pk}", seconds=1) > PER_SECOND


def too_many_join(request: HttpRequest) -> bool:
    """Whether more have joined from this address in this minute than any crowd's rush needs."""
    return _count(f"joins-{request.META.get('REMOTE_ADDR', '')}", seconds=60) > JOINS_PER_MINUTE


def too_many_resets(request: HttpRequest) -> bool:
    """Whether this address has asked for more new passwords in a quarter of an hour than a lab forgets."""
    return _count(f"resets-{request.META.get('REMOTE_ADDR', '')}", seconds=900) > RESETS


def too_many_letters(email: str) -> bool:
    """Whether a mailbox was to get more letters in this hour than anybody needs, be there such an account or not."""
    return _count(f"letters-{sha256(email.casefold().encode()).hexdigest()}", seconds=3600) > LETTERS


def too_many_guesses(user: str) -> bool:
    """Whether whoever sits at this account has tried to change its password more often than a slip of the hand."""
    return _count(f"guesses-{user}", seconds=900) > GUESSES


def too_many_invitations(user: int) -> bool:
    return _count(f"invitations-{user}", seconds=3600) > INVITATIONS


def too_many_acceptances(request: HttpRequest) -> bool:
    return _count(f"acceptances-{request.META.get('REMOTE_ADDR', '')}", seconds=60) > ACCEPTANCES


def too_many_exports(user: int) -> bool:
    return _count(f"exports-{user}", seconds=3600) > EXPORTS


def too_many_calls(token: int) -> bool:
    """Whether the API token with this key was shown more often in this second than any front end needs."""
    return _count(f"calls-{token}", seconds=1) > CALLS_PER_SECOND


def _count(what: str, seconds: int) -> int:
    """How often this was counted in this stretch of time, now included. Where counting fails, judging goes on."""
    key = f"{what}-{int(time.time() // seconds)}"
    try:
        cache.add(key, 0, timeout=2 * seconds)
        return int(cache.incr(key))
    except Exception as error:
        log.warning("requests were not counted: %s", type(error).__name__)
        return 0
