"""One turn of an updater: what it looks for, and in which order. The command and the task take the same turns."""

from typing import NamedTuple

from modelling.claiming import Tell
from modelling.exporting.requests import export_one
from modelling.models import ModelSnapshot
from modelling.searching import search_one
from modelling.updating import run_one
from modelling.webhooks import deliver_one


class Turn(NamedTuple):
    version: ModelSnapshot | None
    worked: bool


def take_turn(owner: str, tell: Tell | None = None) -> Turn:
    """A version for whoever has waited longest, one message; and, when nobody waits for either, what can be put off."""
    version = run_one(owner, tell=tell)
    delivered = deliver_one(owner)
    if version is not None or delivered:
        return Turn(version, True)
    return Turn(None, export_one(owner, lambda: run_one(owner, tell=tell)) or search_one(owner))
