"""Checks a project's log as an auditor would: nothing missing, nothing changed, nothing pointing elsewhere."""

import heapq
from collections.abc import Iterator

from django.db import connection
from django.db.models import F, Q

from annotation.append_only import TABLES
from annotation.ledger import Event, fingerprint
from annotation.models import Assignment, EventHead, Judgement, Project, Retraction, Tombstone

CHUNK = 2000


def problems_of(project: Project) -> Iterator[str]:
    """One sentence for each thing that is wrong, naming the row."""
    yield from _broken_chain(project)
    yield from _strays(project)


def _events(project: Project) -> Iterator[Event]:
    judgements = Judgement.objects.filter(project=project).select_related("worker", "item_lo", "item_hi")
    retractions = Retraction.objects.filter(project=project).select_related("judgement")
    streams = (rows.order_by("sequence").iterator(chunk_size=CHUNK) for rows in (judgements, retractions))
    return heapq.merge(*streams, key=lambda event: event.sequence)


def _broken_chain(project: Project) -> Iterator[str]:
    """Sequences run 1, 2, 3 ...; each event holds the hash of the one before it and its own."""
    sequence, previous = 0, ""
    for event in _events(project):
        name = f"{event._meta.model_name} {event.pk} (sequence {event.sequence})"
        if event.sequence != sequence + 1:
            yield f"{name} follows sequence {sequence}: an event is missing or stands twice."
        if event.previous_hash != previous:
            yield f"{name} does not continue the hash chain: an event before it was changed or taken out."
        if event.hash != fingerprint(event):
            yield f"{name} does not match its hash: it was changed behind Concord's back."
        sequence, previous = event.sequence, event.hash
    head = EventHead.objects.filter(project=project).first()
    if head is None:
        yield "the project has no event head."
    elif (head.sequence, head.hash) != (sequence, previous):
        yield f"the log ends at sequence {sequence}, but its head says {head.sequence}: the last events were taken out."


def _strays(project: Project) -> Iterator[str]:
    """Rows that point outside their project or contradict the assignment they were given under."""
    outside = ~Q(worker__project=project) | ~Q(item_lo__project=project) | ~Q(item_hi__project=project)
    for kind in (Judgement, Assignment):
        for row in kind._default_manager.filter(outside, project=project):
            yield f"{row._meta.model_name} {row.pk} points to a worker or an item of another project."
    unlike = (
        ~Q(assignment__worker=F("worker")) | ~Q(assignment__item_lo=F("item_lo")) | ~Q(assignment__item_hi=F("item_hi"))
    )
    for judgement in Judgement.objects.filter(unlike, project=project, assignment__isnull=False):
        yield f"judgement {judgement.pk} (sequence {judgement.sequence}) is not about the pair it was assigned."
    for retraction in Retraction.objects.filter(project=project).exclude(judgement__project=project):
        yield f"retraction {retraction.pk} takes back a judgement of another project."


def open_graves() -> Iterator[str]:
    """Projects whose events may be deleted by anybody, although nobody has deleted the project."""
    alive = EventHead.objects.filter(project__in=Tombstone.objects.values("project_number"))
    for slug in alive.values_list("project__slug", flat=True):
        yield f"{slug} has a tombstone although it was not deleted: the database would let its events be deleted."


def missing_guards() -> Iterator[str]:
    """The triggers that keep events append-only, where they are not in the database."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SELECT tgname FROM pg_trigger WHERE NOT tgisinternal AND tgenabled <> 'D'")
        else:
            cursor.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")
        present = {name for (name,) in cursor.fetchall()}
    for table in TABLES:
        for verb in ("update", "delete"):
            if f"{table}_no_{verb}" not in present:
                yield f"the database no longer refuses to {verb} rows of {table}: run `manage.py migrate`."
