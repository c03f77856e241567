"""Workers join, and pairs are lent to them: a few at a time, for a while, never more often than the study allows.

Each worker a pair may be given to is a numbered slot, and a slot is taken by inserting it: where two requests want the
last one, the database lets one in and the other draws again.
"""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta
from random import Random
from typing import Any

from django.db import IntegrityError, connection, transaction
from django.db.models import Count, Min, Q
from django.utils import timezone

from annotation.assignment import Candidate, Pair, choose_pair, draw_pair
from annotation.models import Assignment, Item, Judgement, PlatformIdentity, Project, Suggestion, Worker

PREFETCH = 5
FEW = 2
QUICK_TRIES = 3
ATTEMPTS = 8
REPEAT_AFTER = 5  # judgements between a pair and its planned repeat

Drawn = dict[str, Any]  # the fields of an Assignment that a policy decides


@transaction.atomic
def enrol(
    *, project: Project, traits: dict[str, Any] | None = None, platform: str = "", external_id: str = ""
) -> Worker:
    """A new worker who has consented; under a platform's id, the one worker with that id."""
    if external_id:
        known = PlatformIdentity.objects.filter(project=project, platform=platform, external_id=external_id)
        if identity := known.select_related("worker").first():
            return identity.worker
    worker = Worker.objects.create(project=project, traits=traits or {}, consented_at=timezone.now())
    if external_id:
        PlatformIdentity.objects.create(project=project, worker=worker, platform=platform, external_id=external_id)
    return worker


def lease_pairs(*, worker: Worker, rng: Random, done: int | None = None) -> list[Assignment]:
    """The pairs this worker has before them, the one to show first; empty when no work is left.

    Topped up only when few are left, several at once: that is one commit for three answers, not one for each.
    """
    project = worker.project
    if worker.state != Worker.State.ACTIVE or project.state != Project.State.OPEN:
        return []
    if done is None:
        done = worker.judgements.filter(retraction=None).count()
    held = _renew(_held(worker), project, timezone.now())
    wanted = min(PREFETCH, project.judgements_per_worker - done)
    if len(held) <= FEW and len(held) < wanted and _top_up(worker, wanted, rng):
        held = _held(worker)
    return held[:PREFETCH]


def _held(worker: Worker) -> list[Assignment]:
    """Open leases; what was taken back comes first, then in the order given."""
    leases = (
        Assignment.objects.filter(worker=worker, closed_at=None).select_related("item_lo", "item_hi").order_by("pk")
    )
    return sorted(leases, key=lambda lease: lease.purpose != Assignment.Purpose.AGAIN)


def _renew(held: list[Assignment], project: Project, now: datetime) -> list[Assignment]:
    """Those still good to show: a lease that ran out is extended while nobody else has its slot."""
    kept = []
    for lease in held:
        lost = lease.slot is None and lease.purpose == Assignment.Purpose.NORMAL
        if not (lease.item_lo.active and lease.item_hi.active) or lost:
            Assignment.objects.filter(pk=lease.pk).update(closed_at=now)
            continue
        if lease.expires_at < now:
            lease.expires_at = now + timedelta(minutes=project.lease_minutes)
            lease.save(update_fields=["expires_at"])
        kept.append(lease)
    return kept


@transaction.atomic
def _top_up(worker: Worker, wanted: int, rng: Random) -> bool:
    """Whether any pair was added. The worker's row is held meanwhile, so that two tabs do not both add."""
    Worker.objects.select_for_update().get(pk=worker.pk)
    _free_expired(worker.project, timezone.now())
    missing = wanted - Assignment.objects.filter(worker=worker, closed_at=None).count()
    return any([_lease_another(worker, rng) for _ in range(missing)])


def _lease_another(worker: Worker, rng: Random) -> bool:
    """Whether there was one more pair. A slot lost to somebody quicker means another draw."""
    for _attempt in range(ATTEMPTS):
        drawn = draw(worker, rng)
        if drawn is None:
            return False
        try:
            _take(worker, drawn)
        except IntegrityError:
            continue
        return True
    return False


@transaction.atomic
def _take(worker: Worker, drawn: Drawn) -> None:
    issued = timezone.now()
    lease = Assignment.objects.create(
        project=worker.project,
        worker=worker,
        issued_at=issued,
        expires_at=issued + timedelta(minutes=worker.project.lease_minutes),
        **drawn,
    )
    add_load([(lease.item_lo_id, lease.item_hi_id)])


def add_load(pairs: Iterable[tuple[int, int]], change: int = 1) -> None:
    """Each item's count of how often it was given out, or judged without being given out, is right again."""
    counts = Counter(item for pair in pairs for item in pair)
    # In order of the key: two transactions that touch the same items wait for each other and never deadlock.
    rows = [(change * count, item) for item, count in sorted(counts.items())]
    with connection.cursor() as cursor:
        cursor.executemany("UPDATE annotation_item SET load = load + %s WHERE id = %s", rows)


def _free_expired(project: Project, now: datetime) -> None:
    """Leases that ran out give their slot back; a late answer is still kept."""
    expired = Assignment.objects.filter(project=project, closed_at=None, slot__isnull=False, expires_at__lt=now)
    for pk, lo, hi in expired.order_by("pk").values_list("pk", "item_lo", "item_hi"):
        if Assignment.objects.filter(pk=pk, slot__isnull=False, expires_at__lt=now).update(slot=None):
            add_load([(lo, hi)], change=-1)


# Which pair: a planned repeat, a suggestion of the model, or the least judged


def draw(worker: Worker, rng: Random) -> Drawn | None:
    """What this worker could be given next, and why. Nothing is taken yet."""
    project = worker.project
    if project.repeat_share and rng.random() < project.repeat_share / 100 and (again := _repeat(worker, rng)):
        return again
    left_open = project.random_share / 100
    if left_open < 1 and rng.random() >= left_open and (suggested := _suggested(worker)):
        return {**suggested, "lo_is_left": rng.random() < 0.5}
    pair = _least_judged(worker, rng)
    if pair is None:
        return None
    slot = _free_slot(project, pair.lo, pair.hi)
    chosen = {"policy": "least-judged", "propensity": pair.propensity, "slot": slot, "lo_is_left": rng.random() < 0.5}
    return {"item_lo_id": pair.lo, "item_hi_id": pair.hi, **chosen}


def _repeat(worker: Worker, rng: Random) -> Drawn | None:
    """A pair this worker judged a while ago and has not had again, with its sides swapped."""
    judged = Judgement.objects.filter(worker=worker, retraction=None, assignment__purpose=Assignment.Purpose.NORMAL)
    earlier = list(
        judged.order_by("-sequence").values_list("item_lo", "item_hi", "lo_was_left", "round")[REPEAT_AFTER:]
    )
    again = set(worker.assignments.filter(purpose=Assignment.Purpose.REPEAT).values_list("item_lo", "item_hi"))
    able = [row for row in earlier if row[:2] not in again]
    if not able:
        return None
    lo, hi, lo_was_left, round_ = rng.choice(able)
    chosen = {"policy": "repeat", "propensity": 1 / len(able), "purpose": Assignment.Purpose.REPEAT, "slot": None}
    return {"item_lo_id": lo, "item_hi_id": hi, "lo_is_left": not lo_was_left, "round": round_ + 1, **chosen}


def _suggested(worker: Worker) -> Drawn | None:
    """The pair the model would learn most from, among those this worker has not met and that have a slot left."""
    for suggestion in Suggestion.objects.fresh_for(worker).best_first()[:QUICK_TRIES]:
        lo, hi = suggestion.item_lo_id, suggestion.item_hi_id
        if (slot := _free_slot(worker.project, lo, hi)) is not None:
            return {"item_lo_id": lo, "item_hi_id": hi, "policy": "suggested", "propensity": None, "slot": slot}
    return None


def _least_judged(worker: Worker, rng: Random) -> Pair | None:
    """Quickly from the least judged items; where those have no partner left, by looking at every pair."""
    project = worker.project
    items = Item.objects.filter(project=project, active=True)
    fewest = items.aggregate(fewest=Min("load"))["fewest"]
    firsts = dict(items.filter(load=fewest).values_list("pk", "group"))
    partners = _Partners(worker)
    pair = draw_pair(list(firsts), lambda item: partners.of(item, firsts[item]), rng, QUICK_TRIES)
    return pair or choose_pair(_candidates(worker), rng)


class _Partners:
    """Whom an item may meet for this worker, asked of the database for one item at a time."""

    def __init__(self, worker: Worker) -> None:
        self.project = worker.project
        self.met: dict[int, set[int]] = {}
        for lo, hi in worker.assignments.values_list("item_lo", "item_hi"):
            self.met.setdefault(lo, set()).add(hi)
            self.met.setdefault(hi, set()).add(lo)

    def of(self, item: int, group: str) -> list[int]:
        """The least judged of the items that this one may still be shown with."""
        barred = {item} | self.met.get(item, set()) | self._full(item)
        others = Item.objects.filter(project=self.project, active=True)
        if self.project.pairs == Project.Pairs.WITHIN_GROUP:
            others = others.filter(group=group)
        able = [(load, pk) for pk, load in others.values_list("pk", "load") if pk not in barred]
        fewest = min(able, default=(0, 0))[0]
        return [pk for load, pk in able if load == fewest]

    def _full(self, item: int) -> set[int]:
        """The items with which every slot of this one is taken."""
        taken = Assignment.objects.filter(Q(item_lo=item) | Q(item_hi=item), slot__isnull=False)
        counted = taken.values("item_lo", "item_hi").annotate(n=Count("pk")).filter(n__gte=self.project.redundancy)
        return {lo if hi == item else hi for lo, hi in counted.values_list("item_lo", "item_hi")}


def _candidates(worker: Worker) -> list[Candidate]:
    """Every active item with whom it may not meet: for the end of a study, when pairs are few."""
    project = worker.project
    barred: dict[int, set[int]] = {}
    taken = Count("slot", filter=Q(slot__isnull=False))
    pairs = Assignment.objects.filter(project=project).values("item_lo", "item_hi")
    rows = pairs.annotate(taken=taken, mine=Count("pk", filter=Q(worker=worker)))
    for row in rows.filter(Q(taken__gte=project.redundancy) | Q(mine__gt=0)):
        barred.setdefault(row["item_lo"], set()).add(row["item_hi"])
        barred.setdefault(row["item_hi"], set()).add(row["item_lo"])
    within = project.pairs == Project.Pairs.WITHIN_GROUP
    items = Item.objects.filter(project=project, active=True).values_list("pk", "group", "load")
    return [Candidate(pk, group if within else "", load, frozenset(barred.get(pk, ()))) for pk, group, load in items]


def _free_slot(project: Project, lo: int, hi: int) -> int | None:
    """The lowest slot of this pair that nobody holds."""
    taken = set(Assignment.objects.filter(item_lo=lo, item_hi=hi, slot__isnull=False).values_list("slot", flat=True))
    return next((slot for slot in range(1, project.redundancy + 1) if slot not in taken), None)


def give_again(judgement: Judgement, now: datetime) -> Assignment | None:
    """After an undo the same pair, in the same slot, is lent anew and comes first; None for one that was never lent."""
    old = judgement.assignment
    if old is None:
        return None
    slot, old.slot = old.slot, None
    old.save(update_fields=["slot"])
    rounds = Assignment.objects.filter(worker=old.worker, item_lo=old.item_lo, item_hi=old.item_hi).count()
    lease = timedelta(minutes=old.project.lease_minutes)
    return Assignment.objects.create(
        project=old.project,
        worker=old.worker,
        item_lo=old.item_lo,
        item_hi=old.item_hi,
        lo_is_left=old.lo_is_left,
        round=rounds + 1,
        purpose=Assignment.Purpose.AGAIN,
        policy="again",
        propensity=1.0,
        slot=slot,
        issued_at=now,
        expires_at=now + lease,
    )
