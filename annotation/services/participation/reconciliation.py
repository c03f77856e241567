"""Compare a platform's participants with their answers, and build the lists to approve, pay and reject."""

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal

from django.db.models import Count, Q

from annotation.models import PlatformIdentity, Project, Recruitment, Worker
from annotation.services.participation.checks import CheckResult, list_results
from annotation.services.participation.payment import PAID

REJECT_MESSAGE = (
    "Several attention checks in this study, each of which said which answer to choose, were answered differently. "
    "Thank you for your time."
)  # Prolific requires 100 characters or more
APPROVE, BONUS, REJECT = "approve", "bonus", "reject"


@dataclass(frozen=True)
class Participant:
    """One participant from a platform, with what the study knows about them."""

    identity: PlatformIdentity
    worker: Worker
    judgements: int
    checks: CheckResult

    @property
    def decision(self) -> str:
        """The decision that the answers support: approve, reject (attention checks only), or review manually.

        A submission that was returned, timed out or rejected on the platform is never on a list.
        """
        if self.identity.status in PlatformIdentity.LEFT:
            return "review"
        if self.worker.outcome in PAID:
            return APPROVE
        return REJECT if self.checks.allows_rejection else "review"


def list_participants(project: Project, platform: str, arm: str = "") -> list[Participant]:
    """Everyone who arrived from this platform, in order of arrival; only one arm's workers if `arm` is given."""
    results = list_results(project)
    rows = PlatformIdentity.objects.filter(project=project, platform=platform).select_related("worker__arm")
    rows = rows.filter(worker__arm__name=arm) if arm else rows
    rows = rows.annotate(n=Count("worker__judgements", filter=Q(worker__judgements__retraction=None)))
    return [
        Participant(row, row.worker, row.n, results.get(row.worker_id, CheckResult())) for row in rows.order_by("pk")
    ]


def payment_list(recruitment: Recruitment, kind: str, bonus: Decimal = Decimal(0)) -> Iterator[list[str]]:
    """Yield the rows of a list in the platform's format, which includes only participants with a clear decision."""
    wanted = REJECT if kind == REJECT else APPROVE
    everyone = list_participants(recruitment.project, recruitment.platform)
    people = [person.identity for person in everyone if person.decision == wanted]
    if recruitment.platform == Recruitment.Platform.MTURK and kind != BONUS:
        yield ["AssignmentId", "WorkerId", "Approve", "Reject"]
        for person in people:
            marks = ["x", ""] if kind == APPROVE else ["", REJECT_MESSAGE]
            yield [person.session_id, person.external_id, *marks]
        return
    for person in people:  # Prolific's bulk forms take lines without a header
        if kind == BONUS:
            yield [person.external_id, str(bonus)]
        elif kind == APPROVE:
            yield [person.session_id or person.external_id]
        else:
            yield [person.session_id or person.external_id, REJECT_MESSAGE]
