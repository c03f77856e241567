"""Which version pages show, pinning, requesting a refit, and deleting the arrays of old versions.

Updates always continue from the current version: pinning changes what pages show, not what is learned.
"""

import logging

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils import timezone

from annotation.models import AuditEntry, Judgement, Project, User, Worker
from annotation.services import audit
from annotation.services.privacy.erasure import WORKER_ERASED
from annotation.services.privacy.retention import DATA_ERASED
from annotation.storage import event_log
from modelling.models import ModelSnapshot, UpdateState, WorkerAssessment
from modelling.training.storage import array_store
from modelling.training.storage.label_store import delete_unused_rows

log = logging.getLogger("concord.versions")

KEPT_VERSIONS = 20  # whose arrays are kept


class ContainsErasedData(Exception):
    """The version has learned from judgements of workers who were erased since."""


def shown_snapshot(project: Project) -> ModelSnapshot | None:
    """The version that pages show: the pinned one, or else the current one."""
    state = UpdateState.objects.filter(project=project).select_related("current", "pinned").first()
    return get_shown_snapshot(state) if state else None


def get_shown_snapshot(state: UpdateState) -> ModelSnapshot | None:
    """The version that pages show; None without a current version, so that a pin cannot show removed judgements."""
    return (get_pinned_snapshot(state) or state.current) if state.current else None


def get_pinned_snapshot(state: UpdateState) -> ModelSnapshot | None:
    """The pinned version, unless it contains data of erased people."""
    return state.pinned if state.pinned and not contains_erased_data(state.pinned) else None


def contains_erased_data(snapshot: ModelSnapshot) -> bool:
    return snapshots_with_erased_data(snapshot.project_id).filter(pk=snapshot.pk).exists()


def snapshots_with_erased_data(project_id: int) -> QuerySet[ModelSnapshot]:
    """The versions that include judgements which were retracted later because their workers were erased."""
    versions = ModelSnapshot.objects.filter(project=project_id)
    erased = list(Worker.objects.filter(project=project_id, outcome=Worker.ERASED).values_list("pk", flat=True))
    if not erased:
        return versions.none()
    last = OuterRef("last_sequence")
    removed = Judgement.objects.filter(worker__in=erased, sequence__lte=last, retraction__sequence__gt=last)
    return versions.filter(Exists(removed))


@transaction.atomic
def pin(*, project: Project, user: User | None, number: int) -> ModelSnapshot:
    """Make pages show this version; raise ContainsErasedData if they must not, and DoesNotExist if there is none."""
    snapshot = ModelSnapshot.objects.get(project=project, number=number)
    if contains_erased_data(snapshot):
        raise ContainsErasedData(number)
    changed = UpdateState.objects.filter(project=project).exclude(pinned=snapshot).update(pinned=snapshot)
    if changed:
        audit(project, user, "pinned a version", {"version": number})
    return snapshot


@transaction.atomic
def unpin(*, project: Project, user: User | None) -> None:
    """Make pages show the current version again."""
    state = UpdateState.objects.filter(project=project).select_related("pinned").first()
    if state is None or state.pinned is None:
        return
    UpdateState.objects.filter(pk=state.pk).update(pinned=None)
    audit(project, user, "released the pinned version", {"version": state.pinned.number})


@transaction.atomic
def request_refit(*, project: Project, user: User | None) -> None:
    """Make the next update a refit."""
    event_log.raise_inputs_revision(project.pk)
    audit(project, user, "asked for a fit from scratch")


def clean_up_versions(project: Project) -> None:
    """Unpin and prune versions with data of erased people, prune old versions, and delete what only they used."""
    state = UpdateState.objects.filter(project=project).select_related("pinned").first()
    if state and state.pinned and get_pinned_snapshot(state) is None:
        unpin(project=project, user=None)
    prune_arrays(project)
    _prune_erased_traits(project)
    _delete_unused_rows(project)
    WorkerAssessment.objects.filter(snapshot__project=project, snapshot__pruned_at__isnull=False).delete()


def _delete_unused_rows(project: Project) -> None:
    """Delete workers' rows that no version with arrays uses; after a step, check only newly pruned versions."""
    newest = ModelSnapshot.objects.filter(project=project).first()
    if newest is None or newest.kind == ModelSnapshot.Kind.REFIT:
        delete_unused_rows(project.pk)
        return
    pruned = ModelSnapshot.objects.filter(project=project, pruned_at__gte=newest.created_at)
    if numbers := list(pruned.values_list("number", flat=True)):
        delete_unused_rows(project.pk, numbers)


def _prune_erased_traits(project: Project) -> None:
    """Delete arrays that contain erased traits: those of every version, even a pinned one, before the last erasure.

    The current version was fitted without them. Scores and pins stay.
    """
    erasures = AuditEntry.objects.filter(
        project=project, action__in=[WORKER_ERASED, DATA_ERASED], details__traits__gt=0
    )
    last = erasures.first()
    if last is None:
        return
    current = UpdateState.objects.filter(project=project).values("current")
    before = ModelSnapshot.objects.filter(project=project, pruned_at=None, created_at__lt=last.at)
    for snapshot in before.exclude(pk__in=current).select_related("project"):
        if ModelSnapshot.objects.filter(pk=snapshot.pk, pruned_at=None).update(pruned_at=timezone.now()):
            _delete_arrays(snapshot)


def prune_arrays(project: Project) -> int:
    """Delete the arrays, but not the scores, of old and erased versions; return the number of versions pruned.

    A version is marked first, by an UPDATE that skips the pinned one: a crash in between leaves an unneeded file, but
    never a version without the arrays it claims to have.
    """
    pruned = 0
    for snapshot in [*_with_erased_data(project), *_old(project)]:
        mark = ModelSnapshot.objects.filter(pk=snapshot.pk, pruned_at=None).exclude(pk__in=_in_use(project))
        if mark.update(pruned_at=timezone.now()):
            pruned += 1
            _delete_arrays(snapshot)
    return pruned


def _delete_arrays(snapshot: ModelSnapshot) -> None:
    """Delete the arrays; a file that cannot be deleted wastes space but does not fail the update."""
    try:
        array_store.remove(snapshot.project, snapshot.checksum)
    except OSError as error:
        log.warning("old arrays could not be deleted: %s", error.strerror, extra={"snapshot": snapshot.number})


def _with_erased_data(project: Project) -> QuerySet[ModelSnapshot]:
    """Versions with data of erased people, and versions stored as changes to one of them."""
    affected = snapshots_with_erased_data(project.pk)
    stored = ModelSnapshot.objects.filter(project=project, pruned_at=None).select_related("project")
    return stored.filter(Q(pk__in=affected.values("pk")) | Q(base__in=affected.values("checksum")))


def _old(project: Project) -> QuerySet[ModelSnapshot]:
    """Versions older than the newest twenty, except their refit and those in use."""
    versions = ModelSnapshot.objects.filter(project=project).select_related("project").order_by("-number")
    oldest_kept = versions.values_list("number", flat=True)[KEPT_VERSIONS - 1 : KEPT_VERSIONS].first()
    if oldest_kept is None:
        return versions.none()
    refit = versions.filter(kind=ModelSnapshot.Kind.REFIT, number__lte=oldest_kept).values("pk")[:1]
    old = versions.filter(number__lt=oldest_kept, pruned_at=None)
    return old.exclude(pk__in=list(refit.values_list("pk", flat=True))).exclude(pk__in=_in_use(project))


def _in_use(project: Project) -> list[int]:
    pointers = UpdateState.objects.filter(project=project).values_list("current", "pinned")
    return [pk for pair in pointers for pk in pair if pk is not None]
