"""One pass of the updater, as run by the `update_models` command and by the Celery task."""

import time
from typing import NamedTuple

from django.utils import timezone

from annotation.importing.background import continue_imports
from annotation.services.privacy.retention import delete_old_logins, erase_worker_data, idle_projects
from modelling.exports.jobs import run_export_job
from modelling.models import ModelSnapshot
from modelling.updater.long_updates import LongUpdates, takes_long
from modelling.updater.project_removal import remove_one
from modelling.updater.settings_search import search_one
from modelling.updater.simulations import simulate_one
from modelling.updater.update import update_claimed, update_one
from modelling.updater.update_state import ReportProgress, claim_project
from modelling.updater.webhooks.delivery import deliver_one

MAINTENANCE_SECONDS = 3600.0
_last_maintenance = 0.0  # when this process last ran it, by the monotonic clock


class LoopResult(NamedTuple):
    version: ModelSnapshot | None
    worked: bool


def run_once(owner: str, report: ReportProgress | None = None, long_updates: LongUpdates | None = None) -> LoopResult:
    """Run one pass: an update, a webhook delivery, a batch of removals and imports; a job only if none of them was due.

    With `long_updates`, long updates and searches run in a child process and only short ones in this process.
    """
    run_maintenance()
    busy = long_updates is not None and long_updates.busy
    state = claim_project(owner, accept=lambda due: not (busy and takes_long(due)))
    if state is not None and long_updates is not None and not busy and takes_long(state):
        long_updates.start(state, state.project)
        return LoopResult(None, True)
    version = None if state is None else update_claimed(state, report)

    def update() -> ModelSnapshot | None:
        return update_one(owner, report=report, accept=lambda due: long_updates is None or not takes_long(due))

    helped = [deliver_one(owner), remove_one(), continue_imports()]
    if version is not None or any(helped):
        return LoopResult(version, True)
    job_done = run_export_job(owner, update) or simulate_one(owner, update) or search_one(owner, long_updates)
    return LoopResult(None, job_done)


def run_maintenance() -> None:
    """Erase data whose retention period has ended; each process does so at most once an hour."""
    global _last_maintenance
    if _last_maintenance and time.monotonic() - _last_maintenance < MAINTENANCE_SECONDS:
        return
    _last_maintenance = time.monotonic()
    now = timezone.now()
    for project in idle_projects(now):
        erase_worker_data(project)
    delete_old_logins(now)
