"""Simulations of planned studies in the background.

A simulation is a job. Each time the updater claims it, it simulates one crowd, stores its curves and releases the
lease. About once a second it updates a project that is due. Cancelling a simulation takes its lease away.
"""

import time
from collections.abc import Callable
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.translation import gettext_noop

from annotation.models import Project, User
from annotation.services import audit
from annotation.services.participation.recruitment import set_simulation
from modelling.models import StudySimulation
from modelling.planning.designer import MIN_CROWDS, Row, StudyPlan, bands, read_curves, simulate_plan
from modelling.updater import leases
from modelling.updater.jobs import claim_job, fail_job, running

MAX_SECONDS = 600.0  # CPU time of one simulation
REPORT_SECONDS = 1.0
KEPT = 20  # simulations of a project, the newest
TOO_LONG = gettext_noop(
    "The simulation took more than ten minutes of computing. Use fewer items, workers or judgements."
)
SHORTENED = gettext_noop("The simulation was ended after ten minutes of computing, so there are fewer crowds.")
CANCELLED = gettext_noop("Cancelled.")

Callback = Callable[[], object]
State = StudySimulation.State
UNFINISHED = [State.WAITING, State.RUNNING]


def request_simulation(*, project: Project, user: User | None, plan: StudyPlan, pay: dict[str, Any]) -> bool:
    """Queue a simulation; False if one is already waiting or running."""
    try:
        with transaction.atomic():
            StudySimulation.objects.create(project=project, requested_by=user, plan=plan.as_dict(), pay=pay)
            audit(project, user, "asked for a simulation of the study")
    except IntegrityError:
        return False
    old = StudySimulation.objects.filter(project=project).exclude(state__in=UNFINISHED).values_list("pk", flat=True)
    StudySimulation.objects.filter(pk__in=list(old[KEPT - 1 :])).delete()
    return True


@transaction.atomic
def cancel_simulation(*, project: Project, user: User | None) -> bool:
    """End the waiting or running simulation; its process loses the lease. False if there is none."""
    unfinished = StudySimulation.objects.filter(project=project, state__in=UNFINISHED)
    ended = {"state": State.CANCELLED, "ended_at": timezone.now(), "progress": {}, "message": CANCELLED}
    cancelled = unfinished.update(**ended, **leases.RELEASED)
    if cancelled:
        audit(project, user, "cancelled the simulation of the study")
    return bool(cancelled)


def simulate_one(owner: str, meanwhile: Callback = lambda: None) -> bool:
    """Simulate one crowd of one job; False if no job is waiting. `meanwhile` is called about once a second."""
    job = claim_job(StudySimulation, owner)
    if job is None:
        return False
    with running(job):
        _simulate_next(job, meanwhile)
    return True


def _simulate_next(job: StudySimulation, meanwhile: Callback) -> None:
    plan = StudyPlan.from_dict(job.plan)
    rows, seconds = _simulate_crowd(job, plan, meanwhile)
    if rows is None and len(job.crowds) < MIN_CROWDS:
        fail_job(job, TOO_LONG)
        return
    crowds = job.crowds if rows is None else [*job.crowds, read_curves(plan, rows)]
    if rows is None or len(crowds) == plan.crowds:
        _finish(job, plan, crowds, seconds, SHORTENED if rows is None else "")
    else:
        leases.release(job, crowds=crowds, seconds=seconds, progress=_progress(plan, len(crowds), 0))


def _simulate_crowd(job: StudySimulation, plan: StudyPlan, meanwhile: Callback) -> tuple[list[Row] | None, float]:
    """The accuracy of the next crowd after every update, or None if time has run out; and the CPU seconds so far."""
    rows: list[Row] = []
    seconds, at, reported_at = job.seconds, time.thread_time(), time.monotonic()
    for row in simulate_plan(plan, seed=len(job.crowds)):
        rows.append(row)
        now = time.thread_time()
        seconds, at = seconds + now - at, now
        if seconds > MAX_SECONDS:
            return None, seconds
        if time.monotonic() - reported_at >= REPORT_SECONDS:
            leases.extend(job, progress=_progress(plan, len(job.crowds), row[0]))
            meanwhile()
            at, reported_at = time.thread_time(), time.monotonic()
    return rows, seconds


def _progress(plan: StudyPlan, crowds: int, judgements: int) -> dict[str, float]:
    share = (crowds + judgements / plan.n_judgements) / plan.crowds
    return {"share": round(min(share, 0.99), 3), "crowds": crowds, "of": plan.crowds}


@transaction.atomic
def _finish(job: StudySimulation, plan: StudyPlan, crowds: list[dict[str, Any]], seconds: float, message: str) -> None:
    """Publish the result, and write it into the study's passport."""
    ended = {"state": State.DONE, "ended_at": timezone.now(), "progress": {}, "message": message}
    leases.release(job, crowds=crowds, seconds=seconds, **ended)
    set_simulation(project=job.project, user=job.requested_by, simulation=summarise(plan, job.pay, crowds))


def summarise(plan: StudyPlan, pay: dict[str, Any], crowds: list[dict[str, Any]]) -> dict[str, Any]:
    """The plan and its predicted accuracy after all judgements, for the passport and the archive."""
    ends = {
        name: [round(float(curve[-1]), 3) for curve in (band.mean, band.low, band.high)]
        for name, band in bands(crowds).items()
    }
    return {**plan.as_dict(), "crowds": len(crowds), "judgements": plan.n_judgements, "pay": pay, "result": ends}
