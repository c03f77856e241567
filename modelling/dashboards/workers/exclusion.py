"""What excluding a worker changed: the versions with and without their judgements."""

from dataclasses import dataclass

from annotation.models import Judgement, Project, Worker, WorkerExclusion
from modelling.models import ModelSnapshot


@dataclass(frozen=True)
class ExclusionStatus:
    """The exclusion in force, and the numbers of the last version with and the first without the worker."""

    exclusion: WorkerExclusion
    judgements: int
    version_with: int | None
    version_without: int | None


def exclusion_status(worker: Worker) -> ExclusionStatus | None:
    """The exclusion in force and the versions it separates; None if the worker is not excluded."""
    exclusion = worker.exclusions.filter(until_revision=None).select_related("excluded_by").first()
    if exclusion is None:
        return None
    numbers = ModelSnapshot.objects.filter(project=worker.project_id).values_list("number", flat=True)
    return ExclusionStatus(
        exclusion,
        Judgement.objects.answers().filter(worker=worker).count(),
        numbers.filter(inputs_revision__lt=exclusion.since_revision).order_by("-number").first(),
        numbers.filter(inputs_revision__gte=exclusion.since_revision).order_by("number").first(),
    )


@dataclass(frozen=True)
class ExclusionChange:
    """A worker whom one of two versions leaves out: the newer one if `excluded`, else the older one."""

    code: str
    reason: str
    excluded: bool


def exclusion_changes(project: Project, older: ModelSnapshot, newer: ModelSnapshot) -> list[ExclusionChange]:
    """The workers whom only one of the versions excludes."""
    before, after = (
        WorkerExclusion.objects.in_force(project.pk, each.inputs_revision).worker_ids() for each in (older, newer)
    )
    begun = WorkerExclusion.objects.filter(since_revision__lte=newer.inputs_revision).select_related("worker")
    latest = {each.worker_id: each for each in begun.filter(worker__in=before ^ after).order_by("worker", "pk")}
    return [ExclusionChange(each.worker.code, each.reason, pk in after) for pk, each in latest.items()]
