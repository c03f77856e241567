"""A result learned again from its archive: rows in an empty database, one fit, and whether the ranking agrees."""

import math
import uuid
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from django.db import DatabaseError, transaction

from annotation import statements
from annotation.ledger import Event, fingerprint
from annotation.models import Assignment, EventHead, Item, Judgement, Project, Retraction, Worker
from annotation.services import create_project
from modelling.claiming import Tell
from modelling.exporting.archive import EVENTS, ITEMS, MANIFEST, RANKING, WORKERS
from modelling.exporting.unpacking import NoArchive, lines_of
from modelling.model_settings import ModelSettings, Unusable
from modelling.models import ModelSnapshot, UpdateState
from modelling.snapshots import CODE_VERSION
from modelling.updating import run_one

SAME_SCORE = 1e-8
BATCH = 500
MISSHAPEN = (KeyError, TypeError, ValueError, AttributeError, OverflowError)
FACTS = (
    "choice", "skip_reason", "round", "lo_was_left", "source", "response_ms", "clock_doubtful", "late", "sequence",
    "previous_hash", "hash",
)  # fmt: skip
FIRST = 1  # of the numbers that the log counts with


@dataclass(frozen=True)
class Verdict:
    """Whether the ranking came out again. `chain` is whether every event matches its hash and follows another."""

    project: str
    version: int
    made_by: str
    checked_by: str
    items: int
    events: int
    chain: bool
    same_order: bool
    max_difference: float | None

    @property
    def agrees(self) -> bool:
        close = self.max_difference is not None and self.max_difference <= SAME_SCORE
        return self.chain and self.same_order and close

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "agrees": self.agrees}


def reproduce(folder: Path, manifest: dict[str, Any], tell: Tell | None = None) -> Verdict:
    """The unpacked archive is a project of this database, fitted from scratch, and compared with its own ranking."""
    reader = Reader(folder)
    try:
        with transaction.atomic():
            loaded, version = load(reader, manifest), manifest["version"]
        told = {"project": str(manifest["project"]["slug"]), "made_by": str(version["code_version"])}
        number = int(version["number"])
    except DatabaseError:
        raise NoArchive(f"The rows up to {reader.where} contradict each other, or fit into no database.") from None
    except MISSHAPEN:
        what = "something is missing, of the wrong kind, or named and not there"
        raise NoArchive(f"There is nothing to be made of {reader.where}: {what}.") from None
    except Unusable as refusal:
        raise NoArchive(f"The archive names settings that cannot be used. {refusal}") from None
    snapshot = run_one("reproduce", loaded.project, tell)
    if snapshot is None:
        raise NoArchive(f"The model could not be fitted: {UpdateState.objects.get(project=loaded.project).words}")
    same_order, difference = compare(folder, snapshot)
    return Verdict(
        **told,
        version=number,
        checked_by=CODE_VERSION,
        items=snapshot.scores.count(),
        events=loaded.events,
        chain=loaded.chain,
        same_order=same_order,
        max_difference=difference,
    )


class Reader:
    """The rows of the archive's files; `where` is the one that was read last."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.where = folder, MANIFEST

    def rows(self, name: str) -> Iterator[dict[str, Any]]:
        for where, row in lines_of(self.folder / name):
            self.where = where
            yield row


@dataclass(frozen=True)
class Loaded:
    project: Project
    events: int
    chain: bool


def load(reader: Reader, manifest: dict[str, Any]) -> Loaded:
    """Items, workers and events are rows, in the order in which they came."""
    told, settings = manifest["project"], ModelSettings.of(manifest["version"]["settings"])
    if settings.seed != manifest["version"]["seed"]:
        raise NoArchive("The archive names two seeds.")
    names = {name: str(told[name]) for name in ("slug", "title", "question", "language", "pairs")}
    project = create_project(owner=None, model_settings=settings.as_dict(), update_batch=1, **names)
    return Loader(project, _items(project, reader), _workers(project, reader)).take(reader)


def _items(project: Project, reader: Reader) -> dict[tuple[str, int], Item]:
    fields = ("key", "revision", "text", "group", "metadata", "features")
    rows = [
        Item(project=project, active=bool(row["ranked"]), **{name: row[name] for name in fields})
        for row in reader.rows(ITEMS)
    ]
    Item.objects.bulk_create(rows, batch_size=BATCH)
    return {(item.key, item.revision): item for item in rows}


def _workers(project: Project, reader: Reader) -> dict[str, Worker]:
    rows = [Worker(project=project, code=str(row["code"]), traits=dict(row["traits"])) for row in reader.rows(WORKERS)]
    Worker.objects.bulk_create(rows, batch_size=BATCH)
    return {worker.code: worker for worker in rows}


class Loader:
    """Puts the events into the log as they were, and looks at their chain on the way."""

    def __init__(self, project: Project, items: dict[tuple[str, int], Item], workers: dict[str, Worker]) -> None:
        self.project, self.items, self.workers = project, items, workers
        self.judgements: dict[str, Judgement] = {}
        self.waiting: list[Event] = []
        self.sequence, self.hash, self.chain = 0, "", True

    def take(self, reader: Reader) -> Loaded:
        for row in reader.rows(EVENTS):
            if row["type"] == "retraction" or len(self.waiting) == BATCH:
                self._store()  # what is taken back must be a row first
            event = self._event(row, reader.where)
            self._follow(row, event)
            if event is not None:
                self.waiting.append(event)
            if isinstance(event, Retraction):
                self._store()
        self._store()
        EventHead.objects.filter(project=self.project).update(sequence=self.sequence, hash=self.hash)
        return Loaded(self.project, self.sequence, self.chain)

    def _store(self) -> None:
        if self.waiting:
            statements.insert(self.waiting)
            self.waiting = []

    def _follow(self, row: dict[str, Any], event: Event | None) -> None:
        """Of what an erased person took along only the links are left to look at."""
        follows = row["sequence"] == self.sequence + FIRST and row["previous_hash"] == self.hash
        self.chain = self.chain and follows and (event is None or fingerprint(event) == event.hash)
        self.sequence, self.hash = int(row["sequence"]), str(row["hash"])

    def _event(self, row: dict[str, Any], where: str) -> Event | None:
        if row["type"] == "erased":
            return None
        known = {"uuid": uuid.UUID(row["uuid"]), "created_at": datetime.fromisoformat(row["created_at"])}
        if row["type"] == "retraction":
            places = {name: row[name] for name in ("sequence", "previous_hash", "hash")}
            return Retraction(project=self.project, judgement=self.judgements[row["judgement"]], **places, **known)
        if row["type"] != "judgement":
            raise NoArchive(f"There is an event of an unknown type in {where}.")
        judgement = Judgement(
            project=self.project,
            worker=self.workers[row["worker"]],
            item_lo=self.items[tuple(row["lo"])],
            item_hi=self.items[tuple(row["hi"])],
            **{name: row[name] for name in FACTS},
            **known,
        )
        if judgement.source == Judgement.Source.BROWSER:
            judgement.assignment = _lease_of(judgement)
        self.judgements[row["uuid"]] = judgement
        return judgement


def _lease_of(judgement: Judgement) -> Assignment:
    """A browser's answer is given under a lease; archives leave them out, because nothing is learned from them."""
    lease = Assignment(
        project=judgement.project,
        worker=judgement.worker,
        item_lo=judgement.item_lo,
        item_hi=judgement.item_hi,
        lo_is_left=bool(judgement.lo_was_left),
        round=judgement.round,
        policy="archive",
        issued_at=judgement.created_at,
        expires_at=judgement.created_at + timedelta(seconds=1),
        closed_at=judgement.created_at,
    )
    statements.insert([lease])
    return lease


def _finite(mean: Any) -> float:
    """A score that can differ from another; what is no number agrees with everything."""
    if not math.isfinite(mean):
        raise ValueError
    return float(mean)


def compare(folder: Path, snapshot: ModelSnapshot) -> tuple[bool, float | None]:
    """Whether the order is that of the archive, and the largest difference of a score; None where items differ."""
    rows = snapshot.scores.order_by("rank").values_list("item__key", "item__revision", "mean")
    ours = {(key, revision): mean for key, revision, mean in rows}
    try:
        theirs = {(row["key"], row["revision"]): _finite(row["mean"]) for _, row in lines_of(folder / RANKING)}
    except (KeyError, TypeError, ValueError):
        raise NoArchive("The ranking of this archive cannot be read.") from None
    if ours.keys() != theirs.keys():
        return False, None
    return list(ours) == list(theirs), max((abs(ours[key] - theirs[key]) for key in ours), default=0.0)
