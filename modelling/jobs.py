"""Work that somebody asked for and the updater does: a row, claimed by a lease, done when no project is behind.

A killed updater's job is taken up by the next; whoever lost the claim can write nothing any more.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from threading import Event, Thread
from typing import Any, TypeVar

from django.db import connection
from django.db.models import QuerySet
from django.utils import timezone
from django.utils.translation import gettext_noop

from modelling.claiming import beat, unheld
from modelling.models import Job

LEASE = timedelta(minutes=10)
BEAT_SECONDS = 5.0
WENT_WRONG = gettext_noop("Something went wrong on the server. Nothing was changed; the log says what it was.")

State = Job.State
J = TypeVar("J", bound=Job)


class LostJob(Exception):
    """Another updater has taken over; what this one found is thrown away."""


def claim(kind: type[J], owner: str, ready: Callable[[J], bool] = lambda job: True) -> J | None:
    """The job of this kind that has waited longest of those that can be done, and that is now ours."""
    for job in filter(ready, _free(kind).order_by("asked_at", "pk")):
        if _free(kind).filter(pk=job.pk).update(owner=owner, lease_until=timezone.now() + LEASE, state=State.RUNNING):
            job.owner = owner
            return job
    return None


def _free(kind: type[J]) -> QuerySet[J]:
    jobs = kind._default_manager.select_related("project")
    return jobs.filter(unheld(timezone.now()), state__in=[State.WAITING, State.RUNNING])


def write(job: Job, **facts: Any) -> None:
    """What was found is in the row, if the job is still ours; LostJob where it is not."""
    ours = type(job)._default_manager.filter(pk=job.pk, owner=job.owner, state=State.RUNNING)
    if not ours.update(**facts):
        raise LostJob


def hold(job: Job, **facts: Any) -> None:
    """The same, and the lease begins anew."""
    write(job, lease_until=timezone.now() + LEASE, **facts)


def let_go(job: Job, **facts: Any) -> None:
    """The same, and the row is free again for whoever comes next."""
    write(job, **{"owner": "", "lease_until": None, **facts})


def give_up(job: Job, words: str) -> None:
    ended = {"state": State.FAILED, "words": words, "ended_at": timezone.now(), "progress": {}}
    type(job)._default_manager.filter(pk=job.pk, owner=job.owner).update(owner="", lease_until=None, **ended)


@contextmanager
def alive() -> Iterator[None]:
    """Says every few seconds that this updater lives: a job takes longer than anybody waits for such a sign."""
    over = Event()

    def say() -> None:
        while not over.wait(BEAT_SECONDS):
            beat()
        connection.close()

    thread = Thread(target=say, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
