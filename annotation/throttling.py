"""Floods cost the flooder. Answers are counted per worker: a whole crowd may sit behind one router."""

import logging
import time

from django.core.cache import cache
from django.http import HttpRequest

from annotation.models import Worker

log = logging.getLogger("concord.throttling")

PER_SECOND = 20  # requests of one worker
JOINS_PER_MINUTE = 600  # from one address: five hundred who come from a platform in two minutes, or a full lecture hall


def too_fast(worker: Worker) -> bool:
    """Whether this worker has sent more than twenty requests in this second."""
    return _count(f"posts-{worker.pk}", seconds=1) > PER_SECOND


def too_many_join(request: HttpRequest) -> bool:
    """Whether more have joined from this address in this minute than any crowd's rush needs."""
    return _count(f"joins-{request.META.get('REMOTE_ADDR', '')}", seconds=60) > JOINS_PER_MINUTE


def _count(what: str, seconds: int) -> int:
    """How often this was counted in this stretch of time, now included. Where counting fails, judging goes on."""
    key = f"{what}-{int(time.time() // seconds)}"
    try:
        cache.add(key, 0, timeout=2 * seconds)
        return int(cache.incr(key))
    except Exception as error:
        log.warning("requests were not counted: %s", type(error).__name__)
        return 0
