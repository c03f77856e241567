"""One turn of an updater: what it looks for, and in which order. The command and the task take the same turns."""

import time
from typing import NamedTuple

from django.utils import timezone

from annotation.services.retention import erase_people, forget_log_ins, idle_projects
from modelling.claiming import Tell
from modelling.exporting.requests import export_one
from modelling.models import ModelSnapshot
from modelling.removal import remove_one
from modelling.searching import search_one
from modelling.updating import run_one
from modelling.webhooks import deliver_one

HOUR = 3600.0
_kept = 0.0  # when this process last looked


class Turn(NamedTuple):
    version: ModelSnapshot | None
    worked: bool


def take_turn(owner: str, tell: Tell | None = None) -> Turn:
    """A version for whoever has waited longest, one message; and, when nobody waits for either, what can be put off."""
    keep_house()
    version = run_one(owner, tell=tell)
    helped = [deliver_one(owner), remove_one()]
    if version is not None or any(helped):
        return Turn(version, True)
    return Turn(None, export_one(owner, lambda: run_one(owner, tell=tell)) or search_one(owner))


def keep_house() -> None:
    """What need not be kept any longer is erased; looked for once an hour by each updater."""
    global _kept
    if _kept and time.monotonic() - _kept < HOUR:
        return
    _kept = time.monotonic()
    now = timezone.now()
    for project in idle_projects(now):
        erase_people(project)
    forget_log_ins(now)
