"""Verify the integrity of a project's event log: sequence, hash chain, references and triggers."""

import heapq
from collections.abc import Iterator

from django.db import connection
from django.db.models import F, Q

from annotation.models import Assignment, EventHead, Judgement, Project, Retraction, Tombstone
from annotation.storage.event_log import Event, event_hash, expected_triggers, read_triggers

CHUNK = 2000


def find_problems(project: Project) -> Iterator[str]:
    """Verify the hash chain and references; yield one message per problem, naming the row."""
    yield from _chain_problems(project)
    yield from _reference_problems(project)


def _events(project: Project) -> Iterator[Event]:
    judgements = Judgement.objects.filter(project=project).select_related("worker", "item_lo", "item_hi")
    retractions = Retraction.objects.filter(project=project).select_related("judgement")
    streams = (rows.order_by("sequence").iterator(chunk_size=CHUNK) for rows in (judgements, retractions))
    return heapq.merge(*streams, key=lambda event: event.sequence)


def _chain_problems(project: Project) -> Iterator[str]:
    """Check that sequences run 1, 2, 3 ... and that each event holds the previous hash and its own."""
    sequence, previous = 0, ""
    for event in _events(project):
        name = f"{event._meta.model_name} {event.pk} (sequence {event.sequence})"
        if event.sequence != sequence + 1:
            yield f"{name} follows sequence {sequence}: an event is missing or duplicated."
        if event.previous_hash != previous:
            yield f"{name} does not continue the hash chain: an earlier event was changed or removed."
        if event.hash != event_hash(event):
            yield f"{name} does not match its hash: it was changed outside Concord."
        sequence, previous = event.sequence, event.hash
    head = EventHead.objects.filter(project=project).first()
    if head is None:
        yield "the project has no event head."
    elif (head.sequence, head.hash) != (sequence, previous):
        yield f"the log ends at sequence {sequence}, but its head is at {head.sequence}: the last events were removed."


def _reference_problems(project: Project) -> Iterator[str]:
    """Find rows that reference another project or contradict their assignment."""
    outside = ~Q(worker__project=project) | ~Q(item_lo__project=project) | ~Q(item_hi__project=project)
    for kind in (Judgement, Assignment):
        for row in kind._default_manager.filter(outside, project=project):
            yield f"{row._meta.model_name} {row.pk} references a worker or an item of another project."
    mismatch = (
        ~Q(assignment__worker=F("worker")) | ~Q(assignment__item_lo=F("item_lo")) | ~Q(assignment__item_hi=F("item_hi"))
    )
    for judgement in Judgement.objects.filter(mismatch, project=project, assignment__isnull=False):
        yield f"judgement {judgement.pk} (sequence {judgement.sequence}) does not match the pair of its assignment."
    for retraction in Retraction.objects.filter(project=project).exclude(judgement__project=project):
        yield f"retraction {retraction.pk} retracts a judgement of another project."


def find_unprotected_projects() -> Iterator[str]:
    """Find existing projects with a tombstone, whose events the triggers would allow to be deleted."""
    existing = EventHead.objects.filter(project__in=Tombstone.objects.values("project_number"))
    for slug in existing.values_list("project__slug", flat=True):
        yield f"{slug} has a tombstone although it was not deleted: the database would let its events be deleted."


def find_trigger_problems() -> Iterator[str]:
    """Find append-only triggers that are missing, disabled or different from those Concord created."""
    stored = read_triggers(connection)
    for name, text in expected_triggers(connection.vendor).items():
        if name not in stored:
            yield f"the trigger {name}, which keeps events append-only, is missing: run `manage.py migrate`."
        elif stored[name] != text:
            yield f"the trigger {name}, which keeps events append-only, was changed: run `manage.py migrate`."
