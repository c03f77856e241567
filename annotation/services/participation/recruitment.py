"""Change a project's recruitment settings and passport rules; every change is audited, without secrets."""

from decimal import Decimal
from typing import Any, TypeVar

from django.db import transaction

from annotation.models import Project, Recruitment, StudyPassport, User
from annotation.services.participation.arrival import get_recruitment
from annotation.services.participation.passport import SIMULATION, get_passport
from annotation.services.projects import audit

SECRETS = {"webhook_secret"}
Row = TypeVar("Row", Recruitment, StudyPassport)


@transaction.atomic
def change_recruitment(*, project: Project, user: User | None, changes: dict[str, Any]) -> Recruitment:
    """Save these settings and audit their old and new values."""
    return _change(get_recruitment(project), user, "changed recruitment", changes)


@transaction.atomic
def change_rules(*, project: Project, user: User, changes: dict[str, Any]) -> StudyPassport:
    """Save the passport's rules; a frozen plan keeps the old ones and lists the change."""
    return _change(get_passport(project), user, "changed the passport", changes)


@transaction.atomic
def set_simulation(*, project: Project, user: User | None, simulation: dict[str, Any]) -> StudyPassport:
    """Store the latest simulation of the planned study in its passport."""
    return _change(get_passport(project), user, "simulated the study", {SIMULATION: simulation})


def _change(row: Row, user: User | None, action: str, changes: dict[str, Any]) -> Row:
    old = {name: getattr(row, name) for name in changes if getattr(row, name) != changes[name]}
    if old:
        for name in old:
            setattr(row, name, changes[name])
        row.save(update_fields=list(old) if row.pk else None)
        audit(row.project, user, action, {name: _audited(name, old[name], changes[name]) for name in old})
    return row


def _audited(name: str, old: Any, new: Any) -> Any:
    """The old and new value; for a secret, only the fact that it changed."""
    if name in SECRETS:
        return True
    return [str(value) if isinstance(value, Decimal) else value for value in (old, new)]
