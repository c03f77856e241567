"""The judgements of a file as rows: answers, what they would add, and the events themselves, appended in bulk."""

import hashlib
import json
import uuid
from dataclasses import dataclass, field

from django.db import transaction
from django.utils import timezone

from annotation import ledger
from annotation.models import Item, Judgement, PlatformIdentity, Project, User, Worker
from annotation.services import add_load, audit

PLATFORM = "import"
BATCH = 500


@dataclass(frozen=True, slots=True)
class Answer:
    """One row of the file, as it stands there."""

    line: int
    worker: str
    a: str
    b: str
    choice: str
    joined: bool = False  # both keys stood in one cell, with underscores between and perhaps within them
    number: int = 0  # of the worker, in the order in which they joined where the file comes from


@dataclass(frozen=True, slots=True)
class Event:
    """An answer that the project does not have yet, in the terms of its rows."""

    uuid: uuid.UUID
    worker: str
    lo: Item
    hi: Item
    choice: str
    round: int


@dataclass(slots=True)
class Plan:
    """What an import would do. `workers` are those the project does not know yet, in the order they joined."""

    added: list[Event] = field(default_factory=list)
    unchanged: int = 0
    workers: list[str] = field(default_factory=list)

    @property
    def counts(self) -> dict[str, int]:
        ties = sum(event.choice == Judgement.Choice.TIE for event in self.added)
        return {"added": len(self.added), "ties": ties, "workers": len(self.workers), "unchanged": self.unchanged}

    @property
    def basis(self) -> str:
        """A fingerprint of what would be added, down to the revision of each text."""
        facts = [[str(event.uuid), event.lo.pk, event.hi.pk] for event in self.added]
        return hashlib.sha256(json.dumps([self.counts, facts]).encode()).hexdigest()

    @property
    def changes_anything(self) -> bool:
        return bool(self.added)


def store_judgements(project: Project, user: User | None, plan: Plan) -> None:
    """The events stand at the end of the project's log. Call while the project is held."""
    workers = {**workers_known(project), **_enrol(project, plan.workers)}
    ledger.append([_row(project, event, workers[event.worker]) for event in plan.added])
    add_load((event.lo.pk, event.hi.pk) for event in plan.added)
    audit(project, user, "imported judgements", plan.counts)
    transaction.on_commit(lambda: ledger.announce(project.pk))


def workers_known(project: Project) -> dict[str, Worker]:
    """The workers of earlier files, by the name they have there."""
    identities = PlatformIdentity.objects.filter(project=project, platform=PLATFORM).select_related("worker")
    return {identity.external_id: identity.worker for identity in identities}


def _enrol(project: Project, names: list[str]) -> dict[str, Worker]:
    """A finished worker under a random code for each name; the names are kept apart."""
    finished = Worker.State.FINISHED
    strangers = [Worker(project=project, state=finished, outcome=PLATFORM) for _ in names]
    workers = dict(zip(names, Worker.objects.bulk_create(strangers, batch_size=BATCH), strict=True))
    identities = [
        PlatformIdentity(project=project, worker=worker, platform=PLATFORM, external_id=name)
        for name, worker in workers.items()
    ]
    PlatformIdentity.objects.bulk_create(identities, batch_size=BATCH)
    return workers


def _row(project: Project, event: Event, worker: Worker) -> Judgement:
    return Judgement(
        uuid=event.uuid,
        project=project,
        worker=worker,
        item_lo=event.lo,
        item_hi=event.hi,
        round=event.round,
        choice=event.choice,
        source=Judgement.Source.IMPORT,
        created_at=timezone.now(),
    )
