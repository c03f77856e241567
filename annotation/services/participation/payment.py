"""Time and cost of a paid study: minutes per worker, effective hourly pay, total cost."""

from dataclasses import dataclass
from datetime import timedelta
from decimal import ROUND_FLOOR, Decimal
from statistics import median, quantiles

from django.db.models import Count, Max, Min
from django.db.models.functions import Coalesce

from annotation.models import PlatformIdentity, Project, Recruitment, Worker

# The platforms' minimum hourly pay, at the median time.
MINIMUM_PER_HOUR: dict[tuple[str, str], Decimal] = {
    (Recruitment.Platform.PROLIFIC, "GBP"): Decimal(6),
    (Recruitment.Platform.PROLIFIC, "USD"): Decimal(8),
}
# Outcomes that are paid without manual review.
PAID = (Worker.Outcome.FINISHED, Worker.Outcome.NO_WORK_LEFT)
CENT = Decimal("0.01")


@dataclass(frozen=True)
class Payment:
    """Time and pay so far; `per_hour` uses the median time, or the researcher's estimate until someone has finished."""

    n_timed: int
    median_minutes: float | None
    p90_minutes: float | None
    per_hour: Decimal | None
    minimum: Decimal | None
    spent: Decimal
    total: Decimal

    @property
    def too_low(self) -> bool:
        return self.per_hour is not None and self.minimum is not None and self.per_hour < self.minimum


def summarise_payment(project: Project, recruitment: Recruitment) -> Payment:
    minutes = sorted(worker_minutes(project))
    middle = median(minutes) if minutes else None
    basis = middle or recruitment.estimated_minutes
    per_hour = _per_hour(recruitment.reward, basis) if basis and recruitment.reward else None
    floor = MINIMUM_PER_HOUR.get((recruitment.platform, recruitment.currency), Decimal(0))
    paid = project.workers.participants().filter(outcome__in=PAID)
    n_paid = paid.exclude(identity__status__in=PlatformIdentity.LEFT).count()
    return Payment(
        n_timed=len(minutes),
        median_minutes=middle,
        p90_minutes=quantiles(minutes, n=10, method="inclusive")[-1] if len(minutes) > 1 else middle,
        per_hour=per_hour,
        minimum=max(floor, recruitment.hourly_target) or None,
        spent=recruitment.reward * n_paid,
        total=recruitment.reward * max(recruitment.places, n_paid),
    )


def _per_hour(reward: Decimal, minutes: float) -> Decimal:
    """The pay per hour, rounded down: a pay just below the minimum is not shown as the minimum."""
    return (reward * 60 / Decimal(minutes)).quantize(CENT, ROUND_FLOOR)


def worker_minutes(project: Project) -> list[float]:
    """Each finished worker's minutes from joining to the end of the participation, or to the last answer."""
    finished = project.workers.participants().filter(state=Worker.State.FINISHED, outcome__in=["", *PAID])
    spans = finished.annotate(n=Count("judgements"), last=Max("judgements__created_at")).filter(n__gt=0)
    spans = spans.annotate(end=Coalesce("ended_at", "last"), began=Min("joined_at"))
    return [max(end - began, timedelta(0)).total_seconds() / 60 for began, end in spans.values_list("began", "end")]
