"""The event log of a project: one sequence in order of commit, one hash chain, written nowhere else.

Judgements and retractions share it. Call these functions inside a transaction: the project's EventHead row is locked
from taking the sequence until commit, so order of sequence is order of commit and no reader passes an uncommitted one.
"""

import hashlib
import json
from collections.abc import Sequence
from datetime import UTC

from django.conf import settings
from django.db.models import F
from django.utils.module_loading import import_string

from annotation import statements
from annotation.models import EventHead, Judgement, Retraction

Event = Judgement | Retraction


def append(events: Sequence[Event]) -> None:
    """Numbers, chains and stores these events of one project, in this order."""
    if not events:
        return
    project_id = events[0].project_id
    last, previous = statements.take_sequences(project_id, len(events))
    for sequence, event in enumerate(events, start=last - len(events) + 1):
        event.sequence, event.previous_hash = sequence, previous
        previous = event.hash = fingerprint(event)
    statements.insert(events)
    statements.set_head(project_id, previous)


def announce(project_id: int) -> None:
    """Those who wait for new events hear of them. Only a hint: whoever misses it finds the events by their sequence."""
    for name in settings.AFTER_JUDGEMENT:
        import_string(name)(project_id)


def raise_inputs_revision(project_id: int) -> None:
    """Says that what the model learns from has changed by other means than an event."""
    EventHead.objects.filter(project_id=project_id).update(inputs_revision=F("inputs_revision") + 1)


def fingerprint(event: Event) -> str:
    """SHA-256 of the event before and of everything this event says."""
    said = json.dumps([event.previous_hash, *_facts(event)], ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(said.encode()).hexdigest()


def _facts(event: Event) -> list[object]:
    at = event.created_at.astimezone(UTC).isoformat(timespec="microseconds")
    if isinstance(event, Retraction):
        return ["retraction", event.sequence, str(event.uuid), str(event.judgement.uuid), at]
    pair = [[item.key, item.revision] for item in (event.item_lo, event.item_hi)]
    answer = [event.round, event.choice, event.skip_reason, event.lo_was_left]
    circumstances = [event.source, event.response_ms, event.clock_doubtful, event.late]
    return ["judgement", event.sequence, str(event.uuid), event.worker.code, pair, answer, circumstances, at]
