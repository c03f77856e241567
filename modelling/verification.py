"""Checks that every snapshot is whole: its arrays are those that were written, its scores are all there."""

from collections.abc import Iterator

from annotation.models import Project
from modelling import arrays
from modelling.models import ModelSnapshot, UpdateState


def problems_of(project: Project) -> Iterator[str]:
    """One sentence for each thing that is wrong, naming the version."""
    for snapshot in ModelSnapshot.objects.filter(project=project).order_by("number"):
        yield from _broken(snapshot)
    state = UpdateState.objects.filter(project=project).select_related("current").first()
    if state and state.current and state.current.last_sequence > state.done_sequence:
        yield f"{state.current} claims to know events that the updater has not read."


def _broken(snapshot: ModelSnapshot) -> Iterator[str]:
    try:
        arrays.load(snapshot.project, snapshot.checksum)
    except arrays.Damaged:
        yield f"the arrays of version {snapshot.number} are missing or damaged."
    ranks = list(snapshot.scores.order_by("rank").values_list("rank", flat=True))
    if ranks != list(range(1, len(ranks) + 1)):
        yield f"the scores of version {snapshot.number} are not complete."
    total = snapshot.included + sum(snapshot.excluded.values())
    events = snapshot.project.judgements.filter(sequence__lte=snapshot.last_sequence).count()
    if total != events:
        yield f"version {snapshot.number} accounts for {total} of {events} judgements."
