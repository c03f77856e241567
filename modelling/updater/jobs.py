"""Background jobs: rows of `Job` subclasses, run by the updater when no project needs an update."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

from django.utils import timezone
from django.utils.translation import gettext_noop

from modelling.models import Job
from modelling.updater import leases

log = logging.getLogger("concord.jobs")

UNEXPECTED = gettext_noop("Something went wrong on the server. Nothing was changed; the server's log has the details.")

State = Job.State
J = TypeVar("J", bound=Job)


def claim_job(kind: type[J], owner: str, is_ready: Callable[[J], bool] = lambda job: True) -> J | None:
    """Lease the oldest unfinished job of this kind that is ready; None if there is none."""
    unfinished = kind._default_manager.filter(state__in=[State.WAITING, State.RUNNING])
    for job in unfinished.filter(leases.free_leases()).select_related("project").order_by("requested_at", "pk"):
        if is_ready(job) and leases.claim(unfinished, job, owner, state=State.RUNNING):
            return job
    return None


@contextmanager
def running(job: Job, describe: Callable[[Exception], str] = lambda error: "") -> Iterator[None]:
    """Extend the job's lease during the block. An error ends the job with a message and does not stop the updater.

    `describe` returns the message for an expected error and "" for any other. Unexpected errors and those of the
    system, such as a full disk, are logged with their traceback.
    """
    facts = {"project": job.project.slug}
    try:
        with leases.extending(job):
            yield
    except leases.LeaseLost:
        log.warning("the %s was cancelled or taken over", job._meta.verbose_name, extra=facts)
    except Exception as error:
        message = describe(error)
        if not message or isinstance(error, OSError):
            log.exception("the %s failed", job._meta.verbose_name, extra=facts)
        fail_job(job, message or UNEXPECTED)


def fail_job(job: Job, message: str) -> None:
    """End a job with a message, unless another process has claimed it."""
    with suppress(leases.LeaseLost):
        leases.release(job, state=State.FAILED, message=message, ended_at=timezone.now(), progress={})
