"""Floods cost the flooder. Counted per worker, not per address: a whole crowd may sit behind one router."""

import logging
import time

from django.core.cache import cache

from annotation.models import Worker

log = logging.getLogger("concord.throttling")

PER_SECOND = 20


def too_fast(worker: Worker) -> bool:
    """Whether this worker has sent more than twenty requests in this second. Where counting fails, judging goes on."""
    key = f"posts-{worker.pk}-{int(time.time())}"
    try:
        cache.add(key, 0, timeout=2)
        return cache.incr(key) > PER_SECOND
    except Exception as error:
        log.warning("requests were not counted: %s", type(error).__name__)
        return False
