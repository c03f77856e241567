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
from django.utils import timezone

from annotation import statements
from annotation.models import Assignment, Judgement, PlatformIdentity, Project, Worker
from annotation.models.workers import SIMULATED, worker_code
from annotation.services.choosing import Chooser, Drawn
from annotation.services.turns import one_at_a_time

PREFETCH = 5
FEW = 2


@transaction.atomic
def enrol(
    *, project: Project, traits: dict[str, Any] | None = None, platform: str = "", external_id: str = ""
) -> Worker:
    """A new worker who has consented; under a platform's id, the one worker with that id."""
    if external_id:
        known = PlatformIdentity.objects.filter(project=project, platform=platform, external_id=external_id)
        if identity := known.select_related("worker").first():
            return identity.worker
    worker = _newcomer(project, traits or {}, worker_code())
    if external_id:
        PlatformIdentity.objects.create(project=project, worker=worker, platform=platform, external_id=external_id)
    return worker


def enrol_once(*, project: Project, traits: dict[str, Any], code: str) -> Worker:
    """A new worker under this code, or the one who has it already. Whoever was erased stays erased: another code."""
    try:
        with transaction.atomic():
            return _newcomer(project, traits, code)
    except IntegrityError:
        worker = Worker.objects.get(project=project, code=code)
    if worker.state != Worker.State.WITHDRAWN:
        return worker
    return _newcomer(project, traits, (SIMULATED if worker.simulated else "") + worker_code())


def _newcomer(project: Project, traits: dict[str, Any], code: str) -> Worker:
    return Worker.objects.create(project=project, traits=traits, code=code, consented_at=timezone.now())


def lease_pairs(*, worker: Worker, rng: Random, done: int | None = None) -> list[Assignment]:
    """The pairs this worker has before them, the one to show first; empty when no work is left.

    Topped up only when few are left, several at once: that is one commit for three answers, not one for each.
    """
    project = worker.project
    if worker.state != Worker.State.ACTIVE or project.state != Project.State.OPEN:
        return []
    if done is None:
        done = statements.count_standing(worker)
    held = _renew(_held(worker), project, timezone.now())
    wanted = min(PREFETCH, project.judgements_per_worker - done)
    if len(held) <= FEW and len(held) < wanted and _top_up(worker, wanted, rng):
        held = _held(worker)
    return held[:PREFETCH]


def _held(worker: Worker) -> list[Assignment]:
    """Open leases: what was taken back last comes first, then the others in the order given."""
    in_order = statements.open_leases_of(worker)
    again = [lease for lease in in_order if lease.purpose == Assignment.Purpose.AGAIN]
    return again[::-1] + [lease for lease in in_order if lease not in again]


def _renew(held: list[Assignment], project: Project, now: datetime) -> list[Assignment]:
    """Those still good to show: a lease that ran out is extended while nobody else has its slot."""
    kept = []
    for lease in held:
        lost = lease.slot is None and lease.purpose == Assignment.Purpose.NORMAL
        if not (lease.item_lo.active and lease.item_hi.active) or lost:
            _lay_aside(lease, now)
            continue
        if lease.expires_at < now:
            lease.expires_at = now + timedelta(minutes=project.lease_minutes)
            lease.save(update_fields=["expires_at"])
        kept.append(lease)
    return kept


@transaction.atomic
def _lay_aside(lease: Assignment, now: datetime) -> None:
    """Not shown any more, its slot given back. Should an answer still come, it is kept."""
    held = Assignment.objects.filter(pk=lease.pk, slot__isnull=False).update(slot=None)
    Assignment.objects.filter(pk=lease.pk).update(closed_at=now)
    if held:
        add_load([(lease.item_lo_id, lease.item_hi_id)], change=-1)


def _top_up(worker: Worker, wanted: int, rng: Random) -> bool:
    """Whether any pair was added. Where an undo takes a slot back meanwhile, none is: the next request draws again."""
    try:
        return _draw_and_take(worker, wanted, rng)
    except IntegrityError:
        return False


@one_at_a_time
def _draw_and_take(worker: Worker, wanted: int, rng: Random) -> bool:
    """One worker of a study at a time: they would fight for the same few pairs.

    The lock does not hold up answers, and loads are raised last, in order of the key: nobody waits in a circle.
    """
    statements.hold(worker.project)
    _free_expired(worker.project, timezone.now())
    missing = wanted - statements.count_open_leases(worker)
    chooser = Chooser(worker, rng)
    drawn = [one for _ in range(missing) if (one := chooser.draw())]
    if drawn:
        _take(worker, drawn)
    return bool(drawn)


def _take(worker: Worker, drawn: list[Drawn]) -> None:
    project, issued = worker.project, timezone.now()
    expires = issued + timedelta(minutes=project.lease_minutes)
    terms = {"issued_at": issued, "expires_at": expires, "tie_offered": project.ties_allowed}
    statements.insert([Assignment(project=project, worker=worker, **terms, **one) for one in drawn])
    add_load((one["item_lo_id"], one["item_hi_id"]) for one in drawn)


def add_load(pairs: Iterable[tuple[int, int]], change: int = 1) -> None:
    """Each item's count of how often it was given out, or judged without being given out, is right again."""
    counts = Counter(item for pair in pairs for item in pair)
    # In order of the key: two transactions that touch the same items wait for each other and never deadlock.
    rows = [(change * count, item) for item, count in sorted(counts.items())]
    with connection.cursor() as cursor:
        cursor.executemany("UPDATE annotation_item SET load = load + %s WHERE id = %s", rows)


def _free_expired(project: Project, now: datetime) -> None:
    """Leases that ran out give their slot back; a late answer is still kept."""
    freed = statements.expired_leases(project, now)
    if not freed:
        return
    Assignment.objects.filter(pk__in=[pk for pk, _lo, _hi in freed]).update(slot=None)
    add_load([(lo, hi) for _pk, lo, hi in freed], change=-1)


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
        tie_offered=old.tie_offered,
        round=rounds + 1,
        purpose=Assignment.Purpose.AGAIN,
        policy="again",
        propensity=1.0,
        slot=slot,
        issued_at=now,
        expires_at=now + lease,
    )
