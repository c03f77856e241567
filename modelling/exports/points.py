"""The point in a study that an export covers: events up to a sequence number and one version of the model."""

from dataclasses import dataclass

from django.utils.translation import gettext as _

from annotation.models import Project, WorkerExclusion
from modelling.models import ModelSnapshot
from modelling.training.inputs import get_read_point
from modelling.training.versions import contains_erased_data, shown_snapshot, snapshots_with_erased_data

MAX_SEQUENCE_DIGITS = 18  # more do not fit into the database column


class ExportError(Exception):
    """The export is not possible. The message says why and what to do; nothing was written."""


@dataclass(frozen=True)
class ExportPoint:
    """Events up to `sequence` and a model version, None before the first one. The same point gives the same bytes."""

    project: Project
    sequence: int
    snapshot: ModelSnapshot | None

    @property
    def version(self) -> int | None:
        return self.snapshot.number if self.snapshot else None

    @property
    def required_snapshot(self) -> ModelSnapshot:
        """The snapshot, or ExportError before the first version."""
        if self.snapshot is None:
            raise ExportError(_("This study has no ranking yet: the model has not learned from any judgement."))
        return self.snapshot

    @property
    def exclusion_reasons(self) -> dict[int, str]:
        """The exclusion reasons by worker as of the point's version; before the first version, as of now."""
        revision = (self.snapshot or get_read_point(self.project)).inputs_revision
        exclusions = WorkerExclusion.objects.in_force(self.project.pk, revision)
        return dict(exclusions.values_list("worker", "reason"))


def resolve_point(project: Project, as_of: int | None = None, version: int | None = None) -> ExportPoint:
    """Return the current point, or the one named by an event, a version or both.

    An event alone is combined with the newest version that includes no later event; a version alone with the last
    event it includes.
    """
    last = get_read_point(project).sequence
    if as_of is not None and not 0 <= as_of <= last:
        raise ExportError(
            _("The event log has events 1 to %(last)d; there is no event %(as_of)d.") % {"last": last, "as_of": as_of}
        )
    if version is not None:
        snapshot: ModelSnapshot | None = _get_version(project, version)
    elif as_of is None:
        snapshot = shown_snapshot(project)
    else:
        snapshot = _newest_version_until(project, as_of)
    if as_of is None:
        as_of = snapshot.last_sequence if version is not None and snapshot else last
    return ExportPoint(project, as_of, snapshot)


def _get_version(project: Project, number: int) -> ModelSnapshot:
    snapshot = ModelSnapshot.objects.filter(project=project, number=number).select_related("project").first()
    if snapshot is None:
        raise ExportError(_("The model of this study has no version %(number)d.") % {"number": number})
    if contains_erased_data(snapshot):
        message = _("Version %(number)d includes data of erased people and can no longer be exported.")
        raise ExportError(message % {"number": number})
    return snapshot


def _newest_version_until(project: Project, sequence: int) -> ModelSnapshot | None:
    versions = ModelSnapshot.objects.filter(project=project, last_sequence__lte=sequence).select_related("project")
    return versions.exclude(pk__in=snapshots_with_erased_data(project.pk).values("pk")).order_by("-number").first()
