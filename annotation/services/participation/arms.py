"""Arms: assign each new worker to one, and change a study's arms."""

from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256

from django.db import transaction
from django.db.models import Count, Exists, OuterRef, Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from annotation.exceptions import RequestError
from annotation.models import Arm, Judgement, Project, User, Worker
from annotation.models.arms import OVERRIDES, Design, describe_arms
from annotation.models.workers import ACTIVE_WINDOW, SIMULATED
from annotation.services.pairs.counts import count_pairs
from annotation.services.participation.payment import PAID
from annotation.services.participation.quotas import renew_quotas
from annotation.services.projects import audit
from annotation.storage import queries

COMPLETED = Q(state=Worker.State.FINISHED, outcome__in=["", *PAID])


class ArmInUse(RequestError):
    status = 409
    title = _("An arm with workers cannot be removed.")
    detail = _("Nothing was changed. The workers and their answers would lose their arm.")


def choose_arm(project: Project, code: str) -> Arm | None:
    """Choose the arm for a worker who joins in this transaction: the one with the fewest completed and active workers.

    The lock makes parallel joins wait for each other's commit. Ties are decided by a hash of the worker's code, which
    is random, so that anyone who has the exports can repeat the assignment.
    """
    if not Arm.objects.filter(project=project).exists():
        return None
    queries.lock_project(project)
    arms = list(Arm.objects.filter(project=project))
    counts = count_present(project, timezone.now(), simulated=code.startswith(SIMULATED))
    return min(arms, key=lambda arm: (counts.get(arm.pk, 0), tie_break(arm.name, code)))


def tie_break(arm: str, code: str) -> str:
    return sha256(f"{code}/{arm}".encode()).hexdigest()


def count_present(project: Project, now: datetime, *, simulated: bool = False) -> dict[int, int]:
    """Count each arm's completed and active workers; simulated workers and people are balanced separately.

    Workers who declined, failed, stopped or returned the task do not count, nor do those who have been away for a
    while: their places are filled again.
    """
    answered = Judgement.objects.filter(worker=OuterRef("pk"), created_at__gte=now - ACTIVE_WINDOW)
    active = Q(state=Worker.State.ACTIVE, suspended=False) & (Q(joined_at__gte=now - ACTIVE_WINDOW) | Exists(answered))
    workers = Worker.objects.filter(active | COMPLETED, project=project, arm__isnull=False)
    kind = workers.filter(code__startswith=SIMULATED) if simulated else workers.exclude(code__startswith=SIMULATED)
    return dict(kind.order_by().values_list("arm").annotate(Count("pk")))


@dataclass(frozen=True)
class ArmSummary:
    """An arm's worker counts, without simulated workers; `present` is the number that the assignment balances."""

    name: str
    assigned: int
    present: int
    completed: int
    judgements: int
    pairs: int


def summarise_arms(project: Project) -> list[ArmSummary]:
    present = count_present(project, timezone.now())
    people = Worker.objects.filter(project=project).participants()
    answers = Judgement.objects.not_retracted().filter(project=project, worker__in=people)
    assigned, completed, judgements = (
        dict(rows.order_by().values_list(column).annotate(n=Count("pk")))
        for rows, column in ((people, "arm"), (people.filter(COMPLETED), "arm"), (answers, "worker__arm"))
    )
    return [
        ArmSummary(
            arm.name,
            assigned.get(arm.pk, 0),
            present.get(arm.pk, 0),
            completed.get(arm.pk, 0),
            judgements.get(arm.pk, 0),
            count_pairs(Design(project, arm)),
        )
        for arm in Arm.objects.filter(project=project)
    ]


@transaction.atomic
def change_arms(*, project: Project, user: User | None, arms: list[Arm]) -> None:
    """Replace the study's arms: change those that have a number, add those without, remove the others."""
    queries.lock_project(project)
    old, stored = describe_arms(project), Arm.objects.filter(project=project)
    removed = stored.exclude(number__in=[arm.number for arm in arms if arm.number])
    if Worker.objects.filter(arm__in=removed).exists():
        raise ArmInUse
    removed.delete()
    used = max([0, *stored.values_list("number", flat=True), *(arm.number or 0 for arm in arms)])
    # Give the arms temporary unused names first, so that two arms can swap names.
    for number in stored.values_list("number", flat=True):
        stored.filter(number=number).update(name=f"{number} ")
    for arm in arms:
        if not arm.number:
            used += 1
            arm.number = used
        values = {name: getattr(arm, name) for name in ("name", *OVERRIDES)}
        Arm.objects.update_or_create(project=project, number=arm.number, defaults=values)
    new = describe_arms(project)
    if new != old:
        renew_quotas(project)
        audit(project, user, "changed the arms", {"arms": [old, new]})
