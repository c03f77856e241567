"""The point at which a study is exported: up to which event, and which version. The same point gives the same bytes."""

from dataclasses import dataclass

from django.utils.translation import gettext as _

from annotation.models import Project
from modelling.inputs import moment_of
from modelling.models import ModelSnapshot
from modelling.versions import knowing_the_erased, knows_the_erased, shown_snapshot

MOST_DIGITS = 18  # of a sequence: more do not fit into the database


class NoExport(Exception):
    """What was asked for cannot be exported; the message says why and what to do. Nothing was written."""


@dataclass(frozen=True)
class Point:
    """Events up to `sequence`, and a version of the model; none where there is none yet."""

    project: Project
    sequence: int
    snapshot: ModelSnapshot | None

    @property
    def version(self) -> int | None:
        return self.snapshot.number if self.snapshot else None

    @property
    def known(self) -> ModelSnapshot:
        """The version, by those who cannot do without."""
        if self.snapshot is None:
            raise NoExport(_("This project has no ranking yet: the model has not learned from a judgement."))
        return self.snapshot


def point_of(project: Project, as_of: int | None = None, version: int | None = None) -> Point:
    """Now, with the version that pages show; or the point named by an event, a version, or both.

    An event alone goes with the newest version that knows nothing later; a version alone with all that it knows.
    """
    last = moment_of(project).sequence
    if as_of is not None and not 0 <= as_of <= last:
        raise NoExport(
            _("The log has events 1 to %(last)d; there is no event %(as_of)d.") % {"last": last, "as_of": as_of}
        )
    if version is not None:
        snapshot: ModelSnapshot | None = _named(project, version)
    elif as_of is None:
        snapshot = shown_snapshot(project)
    else:
        snapshot = _newest_until(project, as_of)
    if as_of is None:
        as_of = snapshot.last_sequence if version is not None and snapshot else last
    return Point(project, as_of, snapshot)


def _named(project: Project, number: int) -> ModelSnapshot:
    snapshot = ModelSnapshot.objects.filter(project=project, number=number).select_related("project").first()
    if snapshot is None:
        raise NoExport(_("There is no version %(number)d of this project's model.") % {"number": number})
    if knows_the_erased(snapshot):
        words = _("Version %(number)d knows people who were erased since; it cannot be exported any more.")
        raise NoExport(words % {"number": number})
    return snapshot


def _newest_until(project: Project, sequence: int) -> ModelSnapshot | None:
    versions = ModelSnapshot.objects.filter(project=project, last_sequence__lte=sequence).select_related("project")
    return versions.exclude(pk__in=knowing_the_erased(project.pk).values("pk")).order_by("-number").first()
