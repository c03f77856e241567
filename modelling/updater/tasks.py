"""The updater as a Celery task, for several machines.

Hints may be lost, duplicated or late: due updates are computed from rows, and a periodic sweep finds those missed.
"""

from __future__ import annotations

import logging
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from threading import Event
from typing import TYPE_CHECKING

from celery import Celery, shared_task
from django.conf import settings
from django.utils.module_loading import import_string

if TYPE_CHECKING:
    from modelling.updater.long_updates import LongUpdates

log = logging.getLogger("concord.tasks")

TASK = "modelling.updater.tasks.bring_up_to_date"
HINT_EXPIRES = 30  # seconds
HINT_SECONDS = 0.5  # between two hints of a process: one hint covers all judgements stored since the last

_sender = ThreadPoolExecutor(1, thread_name_prefix="hints")  # a request never waits for Redis
_pending = Event()


@shared_task(name=TASK, ignore_result=True)
def bring_up_to_date() -> int:
    """Run the updater until nothing is left to do; return the number of published versions."""
    from threadpoolctl import threadpool_limits

    from modelling.updater.leases import process_owner, record_heartbeat, release_dead_leases
    from modelling.updater.loop import run_once
    from modelling.updater.startup import allocate_blas_buffers

    allocate_blas_buffers()
    record_heartbeat()
    release_dead_leases()
    owner, published = process_owner(), 0
    with threadpool_limits(1):
        while (result := run_once(owner, long_updates=long_updates())).worked:
            published += result.version is not None
            record_heartbeat()
    return published


@cache
def long_updates() -> LongUpdates:
    """This worker process's child process, which continues when the task that started it ends."""
    from modelling.updater.long_updates import LongUpdates

    return LongUpdates()


def wake_updater(project_id: int) -> None:
    """Send a hint that a judgement was committed, without failing or blocking."""
    if not _pending.is_set():
        _pending.set()
        _sender.submit(_send)


def _send() -> None:
    """Send one hint for all judgements stored so far; the pause comes first, so that judgements during it count too."""
    time.sleep(HINT_SECONDS)
    _pending.clear()
    queue: Celery = import_string(settings.TASK_QUEUE)
    try:
        queue.send_task(TASK, expires=HINT_EXPIRES, retry=False)
    except Exception as error:  # a lost hint does no harm: the sweep runs every few seconds
        log.warning("could not notify the task queue: %s", type(error).__name__)
