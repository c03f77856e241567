"""Trial answers of researchers who try the judging page: not in the event log, without a lease, never counted."""

from dataclasses import dataclass
from statistics import median
from typing import Any
from uuid import UUID

from django.db.models import Q

from annotation.exceptions import AssignmentNotFound
from annotation.models import Item, Project, TrialAnswer, User
from annotation.models.arms import Design
from annotation.services.pairs.selection import find_sample_pairs
from annotation.services.tasks import pair_payload

TRIAL_PAIRS = 5
ID_BITS = 64
LARGEST_ID = 2**63 - 1


@dataclass(frozen=True)
class TrialSummary:
    """The user's trial answers, and the minutes that a worker would need at this pace."""

    answers: int
    seconds: float | None  # median seconds per pair
    minutes: int | None


def build_task(project: Project, user: User) -> dict[str, Any]:
    """The task of the judging page: the sample pairs that this user has not answered yet."""
    answers = list(TrialAnswer.objects.filter(project=project, user=user).order_by("pk"))
    answered = {(answer.left_id, answer.right_id) for answer in answers}
    sample = find_sample_pairs(Design(project), TRIAL_PAIRS)
    last = answers[-1] if answers else None
    return {
        "pairs": [
            pair_payload(_pair_id(left, right), left, right, project)
            for left, right in sample
            if (left.pk, right.pk) not in answered
        ],
        "done": len(answers),
        "total": max(len(sample), len(answers)),
        "undo": str(last.uuid) if last else None,
        "undo_choice": last.choice if last else None,
        "finished": all((left.pk, right.pk) in answered for left, right in sample),
    }


def _pair_id(left: Item, right: Item) -> UUID:
    """An ID that encodes the two items, because trial answers have no lease."""
    return UUID(int=(left.pk << ID_BITS) | right.pk)


def record_trial(*, project: Project, user: User, uuid: UUID, assignment: UUID, **answer: Any) -> bool:
    """Store one answer, unless this UUID or pair was stored before. Return whether it is new."""
    left, right = divmod(assignment.int, 1 << ID_BITS)
    if max(left, right) > LARGEST_ID or Item.objects.filter(project=project, pk__in={left, right}).count() < 2:
        raise AssignmentNotFound
    known = TrialAnswer.objects.filter(Q(uuid=uuid) | Q(project=project, user=user, left=left, right=right))
    if known.exists():
        return False
    response_ms = answer.pop("response_ms")
    TrialAnswer.objects.create(
        uuid=uuid,
        project=project,
        user=user,
        left_id=left,
        right_id=right,
        response_ms=None if response_ms is None or response_ms < 0 else response_ms,
        **answer,
    )
    return True


def delete_trial(*, project: Project, user: User, uuid: UUID) -> None:
    TrialAnswer.objects.filter(project=project, user=user, uuid=uuid).delete()


def delete_trials(*, project: Project, user: User) -> None:
    TrialAnswer.objects.filter(project=project, user=user).delete()


def summarise(project: Project, user: User) -> TrialSummary:
    """Count the user's answers and estimate how long a worker takes."""
    times = list(TrialAnswer.objects.filter(project=project, user=user).values_list("response_ms", flat=True))
    known = [time / 1000 for time in times if time is not None]
    if not known:
        return TrialSummary(len(times), None, None)
    seconds = float(median(known))
    return TrialSummary(len(times), seconds, max(1, round(seconds * project.judgements_per_worker / 60)))
