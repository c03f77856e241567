"""Versions of a model: which one pages show, pinning and rolling back, asking for a refit, throwing old arrays away.

The updater goes on from the current version whatever is pinned: pinning changes what people see, never what is learned.
"""

import logging

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from annotation import ledger
from annotation.models import Project, User
from annotation.services import audit
from modelling import arrays
from modelling.models import ModelSnapshot, UpdateState

log = logging.getLogger("concord.versions")

KEPT = 20  # newest versions whose arrays are kept


def shown_snapshot(project: Project) -> ModelSnapshot | None:
    """The version pages show: the pinned one, or the current one."""
    state = UpdateState.objects.filter(project=project).select_related("current", "pinned").first()
    return shown_of(state) if state else None


def shown_of(state: UpdateState) -> ModelSnapshot | None:
    """Without a current version nothing is shown: what was taken out of a study does not live on in a pinned one."""
    return (state.pinned or state.current) if state.current else None


@transaction.atomic
def pin(*, project: Project, user: User | None, number: int) -> ModelSnapshot:
    """Pages show this version from now on; DoesNotExist where the project has no such version."""
    snapshot = ModelSnapshot.objects.get(project=project, number=number)
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


def prune(project: Project) -> int:
    """Throws away the arrays of old versions; their scores stay. Returns how many versions lost theirs.

    A version is marked first, in one statement that spares the pinned one: killed in between, a file too many is left,
    never a version that promises arrays it has not got.
    """
    pruned = 0
    for snapshot in _prunable(project):
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
