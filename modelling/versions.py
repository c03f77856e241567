"""Versions of a model: which one pages show, pinning and rolling back, asking for a refit, throwing old arrays away.

The updater goes on from the current version whatever is pinned: pinning changes what people see, never what is learned.
"""

import logging

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils import timezone

from annotation import ledger
from annotation.models import AuditEntry, Judgement, Project, User, Worker
from annotation.services import audit
from annotation.services.erasure import ERASED
from annotation.services.retention import ERASED_IN_TIME
from modelling import arrays
from modelling.models import ModelSnapshot, UpdateState

log = logging.getLogger("concord.versions")

KEPT = 20  # newest versions whose arrays are kept


class KnowsTheErased(Exception):
    """The version has learned from judgements that were taken out when the people who gave them were erased."""


def shown_snapshot(project: Project) -> ModelSnapshot | None:
    """The version pages show: the pinned one, or the current one."""
    state = UpdateState.objects.filter(project=project).select_related("current", "pinned").first()
    return shown_of(state) if state else None


def shown_of(state: UpdateState) -> ModelSnapshot | None:
    """Without a current version nothing is shown: what was taken out of a study does not live on in a pinned one."""
    return (pinned_of(state) or state.current) if state.current else None


def pinned_of(state: UpdateState) -> ModelSnapshot | None:
    """The pin that holds: one on a version that knows people who were erased holds no more."""
    return state.pinned if state.pinned and not knows_the_erased(state.pinned) else None


def knows_the_erased(snapshot: ModelSnapshot) -> bool:
    """Whether it has learned from judgements that were taken out, after it, with the people who gave them."""
    return knowing_the_erased(snapshot.project_id).filter(pk=snapshot.pk).exists()


def knowing_the_erased(project_id: int) -> QuerySet[ModelSnapshot]:
    """The versions that have learned from judgements of people erased since, where those were taken back after it."""
    versions = ModelSnapshot.objects.filter(project=project_id)
    erased = list(Worker.objects.filter(project=project_id, outcome=Worker.ERASED).values_list("pk", flat=True))
    if not erased:
        return versions.none()
    last = OuterRef("last_sequence")
    taken_out = Judgement.objects.filter(worker__in=erased, sequence__lte=last, retraction__sequence__gt=last)
    return versions.filter(Exists(taken_out))


@transaction.atomic
def pin(*, project: Project, user: User | None, number: int) -> ModelSnapshot:
    """Pages show this version from now on; DoesNotExist where there is none such, KnowsTheErased where it must not."""
    snapshot = ModelSnapshot.objects.get(project=project, number=number)
    if knows_the_erased(snapshot):
        raise KnowsTheErased(number)
    changed = UpdateState.objects.filter(project=project).exclude(pinned=snapshot).update(pinned=snapshot)
    if changed:
        audit(project, user, "pinned a version", {"version": number})
    return snapshot


@transaction.atomic
def unpin(*, project: Project, user: User | None) -> None:
    """Pages follow the newest version again."""
    state = UpdateState.objects.filter(project=project).select_related("pinned").first()
    if state is None or state.pinned is None:
        return
    UpdateState.objects.filter(pk=state.pk).update(pinned=None)
    audit(project, user, "released the pinned version", {"version": state.pinned.number})


@transaction.atomic
def ask_for_refit(*, project: Project, user: User | None) -> None:
    """The next version is learned from scratch."""
    ledger.raise_inputs_revision(project.pk)
    audit(project, user, "asked for a fit from scratch")


def tidy(project: Project) -> None:
    """After an update: no version that knows the erased is pinned or has arrays, nor has one that is old."""
    state = UpdateState.objects.filter(project=project).select_related("pinned").first()
    if state and state.pinned and pinned_of(state) is None:
        unpin(project=project, user=None)
    prune(project)
    _forget_traits(project)


def _forget_traits(project: Project) -> None:
    """Versions from before workers' traits were erased hold them in their arrays: those go, pinned or not, once the
    current version was learned without them. Scores and pins stay."""
    erasures = AuditEntry.objects.filter(project=project, action__in=[ERASED, ERASED_IN_TIME], details__traits__gt=0)
    last = erasures.first()
    if last is None:
        return
    current = UpdateState.objects.filter(project=project).values("current")
    knowing = ModelSnapshot.objects.filter(project=project, pruned_at=None, created_at__lt=last.at)
    for snapshot in knowing.exclude(pk__in=current).select_related("project"):
        if ModelSnapshot.objects.filter(pk=snapshot.pk, pruned_at=None).update(pruned_at=timezone.now()):
            _throw_away(snapshot)


def prune(project: Project) -> int:
    """Throws away arrays that must not or need not stay; the scores do. Returns how many versions lost theirs.

    A version is marked first, in one statement that spares the pinned one: killed in between, a file too many is left,
    never a version that promises arrays it has not got.
    """
    pruned = 0
    for snapshot in [*_forgettable(project), *_prunable(project)]:
        mark = ModelSnapshot.objects.filter(pk=snapshot.pk, pruned_at=None).exclude(pk__in=_in_use(project))
        if mark.update(pruned_at=timezone.now()):
            pruned += 1
            _throw_away(snapshot)
    return pruned


def _throw_away(snapshot: ModelSnapshot) -> None:
    """A file that cannot be deleted wastes some room; that is no reason to call the update failed."""
    try:
        arrays.remove(snapshot.project, snapshot.checksum)
    except OSError as error:
        log.warning("old arrays could not be deleted: %s", error.strerror, extra={"snapshot": snapshot.number})


def _forgettable(project: Project) -> QuerySet[ModelSnapshot]:
    """Those that know the erased, and those stored as a change of one that does: its file must go."""
    knowing = knowing_the_erased(project.pk)
    whole = ModelSnapshot.objects.filter(project=project, pruned_at=None).select_related("project")
    return whole.filter(Q(pk__in=knowing.values("pk")) | Q(base__in=knowing.values("checksum")))


def _prunable(project: Project) -> QuerySet[ModelSnapshot]:
    """Older than the newest twenty, except what those twenty began from and what is in use."""
    versions = ModelSnapshot.objects.filter(project=project).select_related("project").order_by("-number")
    oldest_kept = versions.values_list("number", flat=True)[KEPT - 1 : KEPT].first()
    if oldest_kept is None:
        return versions.none()
    began = versions.filter(kind=ModelSnapshot.Kind.REFIT, number__lte=oldest_kept).values("pk")[:1]
    old = versions.filter(number__lt=oldest_kept, pruned_at=None)
    return old.exclude(pk__in=list(began.values_list("pk", flat=True))).exclude(pk__in=_in_use(project))


def _in_use(project: Project) -> list[int]:
    pointers = UpdateState.objects.filter(project=project).values_list("current", "pinned")
    return [pk for pair in pointers for pk in pair if pk is not None]
