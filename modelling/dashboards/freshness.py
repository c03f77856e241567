"""Which version a page shows, and how far behind the newest judgement it is."""

from dataclasses import dataclass
from datetime import datetime

from annotation.models import Project
from modelling.inputs import moment_of
from modelling.models import ModelSnapshot, UpdateState


@dataclass(frozen=True)
class Freshness:
    project: Project
    snapshot: ModelSnapshot | None
    labels: int
    behind: int
    error: str

    @property
    def updated_at(self) -> datetime | None:
        return self.snapshot.created_at if self.snapshot else None

    @property
    def revision(self) -> int:
        return self.snapshot.number if self.snapshot else 0

    @property
    def etag(self) -> str:
        return f'"{self.project.pk}-{self.revision}-{self.labels}-{bool(self.error)}"'


def freshness_of(project: Project) -> Freshness:
    """The current version, and how many saved events it has not learned from."""
    state = UpdateState.objects.filter(project=project).select_related("current").first() or UpdateState()
    labels = moment_of(project).sequence
    return Freshness(project, state.current, labels, labels - state.done_sequence, state.words)
