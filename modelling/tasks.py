"""The updater as a task, for several machines: the same `run_one` that `update_models` calls, told when to look.

A hint may be lost, doubled or late: what is behind is computed from rows, and the sweep finds what no hint spoke of.
"""

import logging
from concurrent.futures import ThreadPoolExecutor

from celery import Celery, shared_task
from django.conf import settings
from django.utils.module_loading import import_string

log = logging.getLogger("concord.tasks")

TASK = "modelling.tasks.bring_up_to_date"
STALE_AFTER = 30  # seconds after which a hint that nobody heard says nothing new

_sender = ThreadPoolExecutor(1, thread_name_prefix="hints")  # nobody who answers a request waits for Redis
_waiting: set[int] = set()


@shared_task(name=TASK, ignore_result=True)
def bring_up_to_date() -> int:
    """Nothing is left to do that an updater does; returns how many versions were published."""
    from threadpoolctl import threadpool_limits

    from modelling.claiming import beat, owner_here, release_claims_of_the_dead
    from modelling.turns import take_turn
    from modelling.warming import hold_buffers

    hold_buffers()
    beat()
    release_claims_of_the_dead()
    owner, published = owner_here(), 0
    with threadpool_limits(1):
        while (turn := take_turn(owner)).worked:
            published += turn.version is not None
            beat()
    return published


def wake(project_id: int) -> None:
    """A judgement was committed: somebody may want to look. Never fails and never waits."""
    if project_id not in _waiting:
        _waiting.add(project_id)
        _sender.submit(_send, project_id)


def _send(project_id: int) -> None:
    """One hint for all that were asked for since the last."""
    _waiting.discard(project_id)
    queue: Celery = import_string(settings.TASK_QUEUE)
    try:
        queue.send_task(TASK, expires=STALE_AFTER, retry=False)
    except Exception as error:  # a hint is not worth a failure: the sweep looks every few seconds anyway
        log.warning("no hint could be sent: %s", type(error).__name__)
