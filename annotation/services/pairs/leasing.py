"""Lease pairs to workers: a few at a time, for a limited time, to at most `redundancy` workers.

Each lease takes one of its pair's numbered slots, and a unique constraint guards the slots: when two
requests want the last one, one insert succeeds and the other request selects again.
"""

from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime, timedelta
from random import Random

from django.db import IntegrityError, connection, transaction
from django.utils import timezone

from annotation.models import Assignment, Judgement, Project, Worker
from annotation.services.pairs.selection import PairSelector, Selection
from annotation.storage import queries
from annotation.storage.write_lock import serialise_writes

REFILL = 3  # leases added at a time
USUAL_AHEAD = 5  # pairs that a worker may always hold, however few are left for others
FREE_SHARE = 10  # a worker may hold one in this many free slots, if that is more


def lease_pairs(*, worker: Worker, rng: Random, done: int | None = None) -> list[Assignment]:
    """Return the pairs leased to this worker, next one first; empty when no work is left.

    Leases are topped up several at a time when few are left: one commit for three answers instead of one for each.
    """
    project = worker.project
    if worker.suspended or worker.state != Worker.State.ACTIVE or project.state != Project.State.OPEN:
        return []
    if done is None:
        done = queries.count_judgements(worker)
    leases = _renew(_open_leases(worker), project, timezone.now())
    wanted = min(project.pairs_ahead, worker.judgements_wanted - done)
    few = len(leases) <= max(project.pairs_ahead - REFILL, 0)
    if few and len(leases) < wanted:
        _top_up(worker, rng)
        leases = _open_leases(worker)  # even if none was added: another device of the worker may have got some
    return leases[: project.pairs_ahead]


def _open_leases(worker: Worker) -> list[Assignment]:
    """Open leases: those reissued after an undo first, the latest undo first, then the others in order of issue."""
    in_order = queries.find_open_leases(worker)
    reissued = [lease for lease in in_order if lease.purpose == Assignment.Purpose.REISSUED]
    return reissued[::-1] + [lease for lease in in_order if lease not in reissued]


def _renew(leases: list[Assignment], project: Project, now: datetime) -> list[Assignment]:
    """Extend expired leases; close those that lost their slot or have an inactive item. Return the open ones."""
    kept = []
    for lease in leases:
        lost = lease.slot is None and lease.purpose == Assignment.Purpose.NORMAL
        if not (lease.item_lo.active and lease.item_hi.active) or lost:
            _close(lease, now)
            continue
        if lease.expires_at < now:
            lease.expires_at = now + timedelta(minutes=project.lease_minutes)
            lease.save(update_fields=["expires_at"])
        kept.append(lease)
    return kept


@transaction.atomic
def _close(lease: Assignment, now: datetime) -> None:
    """Stop showing the pair and free its slot. A late answer is still recorded."""
    had_slot = Assignment.objects.filter(pk=lease.pk, slot__isnull=False).update(slot=None)
    Assignment.objects.filter(pk=lease.pk).update(closed_at=now)
    if had_slot:
        add_load([(lease.item_lo_id, lease.item_hi_id)], change=-1)


def _top_up(worker: Worker, rng: Random) -> None:
    """Lease more pairs, with a second attempt if an undo took a slot back in the meantime."""
    try:
        _select_and_issue(worker, rng)
    except IntegrityError:
        with suppress(IntegrityError):
            _select_and_issue(worker, rng)


@serialise_writes
def _select_and_issue(worker: Worker, rng: Random) -> None:
    """Select and issue pairs while holding the project's lock, because workers compete for the same few pairs.

    The lock does not delay answers. One from the worker's other device may have arrived since this request began, so
    answers are counted again. Loads are raised last, in key order, so that there is no deadlock.
    """
    queries.lock_project(worker.project)
    _free_expired(worker.project, timezone.now())
    selector = PairSelector(worker, rng)
    allowed = max(USUAL_AHEAD, selector.count_free_slots() // FREE_SHARE)
    n_open, done = queries.count_open_leases_and_judgements(worker)
    missing = min(worker.project.pairs_ahead, worker.judgements_wanted - done, allowed) - n_open
    selections = [selection for _ in range(missing) if (selection := selector.select())]
    if selections:
        _issue(worker, selections)
        if selector.used_suggestions:
            queries.count_suggestions(selector.used_suggestions)


def _issue(worker: Worker, selections: list[Selection]) -> None:
    project, issued = worker.project, timezone.now()
    expires = issued + timedelta(minutes=project.lease_minutes)
    terms = {"issued_at": issued, "expires_at": expires, "tie_offered": project.ties_allowed}
    queries.insert([Assignment(project=project, worker=worker, **terms, **selection) for selection in selections])
    add_load((selection["item_lo_id"], selection["item_hi_id"]) for selection in selections)


def add_load(pairs: Iterable[tuple[int, int]], change: int = 1) -> None:
    """Change the items' loads: how often each was issued, or judged without being issued."""
    counts = Counter(item for pair in pairs for item in pair)
    # In key order: two transactions that touch the same items wait for each other and never deadlock.
    rows = [(change * count, item) for item, count in sorted(counts.items())]
    with connection.cursor() as cursor:
        cursor.executemany("UPDATE annotation_item SET load = load + %s WHERE id = %s", rows)


def _free_expired(project: Project, now: datetime) -> None:
    """Free the slots of expired leases. A late answer is still recorded."""
    expired = queries.expired_leases(project, now)
    if not expired:
        return
    Assignment.objects.filter(pk__in=[pk for pk, _lo, _hi in expired]).update(slot=None)
    add_load([(lo, hi) for _pk, lo, hi in expired], change=-1)


def expire_leases(worker: Worker) -> None:
    """Expire the worker's leases now; the pairs stay theirs until another worker needs them."""
    now = timezone.now()
    Assignment.objects.filter(worker=worker, closed_at=None, issued_at__lt=now).update(expires_at=now)


def release_pairs(worker: Worker, *, answered: bool) -> None:
    """Free the slots of a worker who is erased: of the pairs they hold, and of those they answered if requested."""
    leases = Assignment.objects.filter(worker=worker)
    taken = leases.filter(slot__isnull=False) if answered else leases.filter(slot__isnull=False, closed_at=None)
    rows = list(taken.order_by("pk").select_for_update().values_list("pk", "item_lo", "item_hi"))
    leases.filter(pk__in=[pk for pk, _lo, _hi in rows]).update(slot=None)
    leases.filter(closed_at=None).update(closed_at=timezone.now())
    add_load([(lo, hi) for _pk, lo, hi in rows], change=-1)


def reissue(judgement: Judgement, now: datetime) -> Assignment | None:
    """Lease the pair of a retracted judgement again, in the same slot; None if it was imported without a lease."""
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
        purpose=Assignment.Purpose.REISSUED,
        policy="again",
        propensity=1.0,
        slot=slot,
        issued_at=now,
        expires_at=now + lease,
    )
