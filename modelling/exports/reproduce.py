"""Reproduce an archived ranking: load the archive into an empty database, refit, and compare."""

import math
import uuid
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from django.db import DatabaseError, transaction

from annotation.models import Assignment, EventHead, Item, Judgement, Project, Retraction, Worker, WorkerExclusion
from annotation.services import create_project
from annotation.services.participation.passport import ITEM_CHANGES, is_intact
from annotation.storage import queries
from annotation.storage.event_log import Event, event_hash
from modelling.exports.archive import EVENTS, ITEMS, MANIFEST, RANKING, WORKERS
from modelling.exports.archive_reader import ArchiveError, read_json_lines
from modelling.models import ModelSnapshot, UpdateState
from modelling.training.settings import InvalidSettings, ModelSettings
from modelling.training.snapshots import CODE_VERSION
from modelling.updater.update import update_one
from modelling.updater.update_state import ReportProgress

SCORE_TOLERANCE = 1e-8
BATCH_SIZE = 500
MALFORMED = (KeyError, TypeError, ValueError, AttributeError, OverflowError)
JUDGEMENT_FIELDS = (
    "choice", "skip_reason", "round", "lo_was_left", "source", "response_ms", "clock_doubtful", "late", "sequence",
    "previous_hash", "hash",
)  # fmt: skip


@dataclass(frozen=True)
class Reproduction:
    """The result of a reproduction; `chain` is whether the hash chain of the event log is intact."""

    project: str
    version: int
    made_by: str
    checked_by: str
    items: int
    events: int
    chain: bool
    same_order: bool
    max_difference: float | None
    passport: str = "none"  # or "verified", "damaged"
    passport_changes: int = 0  # changes to the plan after it was frozen
    passport_changed: tuple[str, ...] = ()  # which parts of the plan

    @property
    def agrees(self) -> bool:
        close = self.max_difference is not None and self.max_difference <= SCORE_TOLERANCE
        return self.chain and self.same_order and close and self.passport != "damaged"

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "agrees": self.agrees}


def reproduce(folder: Path, manifest: dict[str, Any], progress: ReportProgress | None = None) -> Reproduction:
    """Load an unpacked archive into this database, fit from scratch and compare with the archived ranking."""
    reader = ArchiveRows(folder)
    try:
        with transaction.atomic():
            loaded, version = load_archive(reader, manifest), manifest["version"]
        names: dict[str, Any] = {"project": str(manifest["project"]["slug"]), "made_by": str(version["code_version"])}
        number = int(version["number"])
    except DatabaseError:
        raise ArchiveError(f"The rows up to {reader.place} contradict each other or do not fit the database.") from None
    except MALFORMED:
        reason = "a value is missing, has the wrong type, or refers to something that does not exist"
        raise ArchiveError(f"Cannot use {reader.place}: {reason}.") from None
    except InvalidSettings as error:
        raise ArchiveError(f"The model settings of the archive cannot be used. {error}") from None
    snapshot = update_one("reproduce", loaded.project, progress)
    if snapshot is None:
        raise ArchiveError(f"The model could not be fitted: {UpdateState.objects.get(project=loaded.project).message}")
    same_order, difference = compare_rankings(folder, snapshot)
    return Reproduction(
        **names,
        version=number,
        checked_by=CODE_VERSION,
        items=snapshot.scores.count(),
        events=loaded.events,
        chain=loaded.chain,
        same_order=same_order,
        max_difference=difference,
        **check_passport(manifest.get("passport")),
    )


def check_passport(archived: Any) -> dict[str, Any]:
    """Check the archived passport's hash, and count and name the changes to the plan after it was frozen.

    Archives of earlier releases do not list changes of items, and the first ones do not say whether there were any.
    """
    if archived is None:  # the plan was never frozen, or an earlier release made the archive
        return {}
    try:
        intact = is_intact(archived["content"], archived["frozen_at"], archived["sha256"])
        names = [str(change["name"]) for change in archived["changes"]]
        if archived.get("items_changed") and ITEM_CHANGES not in names:
            names.append(ITEM_CHANGES)
        verdict = "verified" if intact else "damaged"
        return {"passport": verdict, "passport_changes": len(names), "passport_changed": tuple(dict.fromkeys(names))}
    except (KeyError, TypeError):
        return {"passport": "damaged"}


class ArchiveRows:
    """The rows of the archive's files; `place` describes the last one read, for error messages."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.place = folder, MANIFEST

    def rows(self, name: str) -> Iterator[dict[str, Any]]:
        for place, row in read_json_lines(self.folder / name):
            self.place = place
            yield row


@dataclass(frozen=True)
class LoadedArchive:
    project: Project
    events: int
    chain: bool


def load_archive(reader: ArchiveRows, manifest: dict[str, Any]) -> LoadedArchive:
    """Create the project with its items, workers and events, in their original order."""
    settings = ModelSettings.from_dict(manifest["version"]["settings"])
    if settings.seed != manifest["version"]["seed"]:
        raise ArchiveError("The archive contains two different seeds.")
    texts = {name: str(manifest["project"][name]) for name in ("slug", "title", "question", "language", "pairs")}
    project = create_project(owner=None, model_settings=settings.as_dict(), update_batch=1, **texts)
    return EventLoader(project, _load_items(project, reader), _load_workers(project, reader)).load(reader)


def _load_items(project: Project, reader: ArchiveRows) -> dict[tuple[str, int], Item]:
    fields = ("key", "revision", "text", "group", "metadata", "features")
    rows = [
        Item(project=project, active=bool(row["ranked"]), **{name: row[name] for name in fields})
        for row in reader.rows(ITEMS)
    ]
    Item.objects.bulk_create(rows, batch_size=BATCH_SIZE)
    return {(item.key, item.revision): item for item in rows}


def _load_workers(project: Project, reader: ArchiveRows) -> dict[str, Worker]:
    workers, exclusions = [], []
    for row in reader.rows(WORKERS):
        worker = Worker(project=project, code=str(row["code"]), traits=dict(row["traits"]))
        workers.append(worker)
        if row.get("excluded") is not None:  # archives of earlier releases do not have it
            exclusions.append(WorkerExclusion(worker=worker, reason=str(row["excluded"])[:200], since_revision=0))
    Worker.objects.bulk_create(workers, batch_size=BATCH_SIZE)
    WorkerExclusion.objects.bulk_create(exclusions, batch_size=BATCH_SIZE)
    return {worker.code: worker for worker in workers}


class EventLoader:
    """Insert the archived events unchanged and check their hash chain."""

    def __init__(self, project: Project, items: dict[tuple[str, int], Item], workers: dict[str, Worker]) -> None:
        self.project, self.items, self.workers = project, items, workers
        self.judgements: dict[str, Judgement] = {}
        self.pending: list[Event] = []
        self.sequence, self.hash, self.chain = 0, "", True

    def load(self, reader: ArchiveRows) -> LoadedArchive:
        for row in reader.rows(EVENTS):
            if row["type"] == "retraction" or len(self.pending) == BATCH_SIZE:
                self._flush()  # the retracted judgement must be stored first
            event = self._build_event(row, reader.place)
            self._check_chain(row, event)
            if event is not None:
                self.pending.append(event)
            if isinstance(event, Retraction):
                self._flush()
        self._flush()
        EventHead.objects.filter(project=self.project).update(sequence=self.sequence, hash=self.hash)
        return LoadedArchive(self.project, self.sequence, self.chain)

    def _flush(self) -> None:
        if self.pending:
            queries.insert(self.pending)
            self.pending = []

    def _check_chain(self, row: dict[str, Any], event: Event | None) -> None:
        """Check the event's hash and its link to the previous event; for an erased event, only the link."""
        follows = row["sequence"] == self.sequence + 1 and row["previous_hash"] == self.hash
        self.chain = self.chain and follows and (event is None or event_hash(event) == event.hash)
        self.sequence, self.hash = int(row["sequence"]), str(row["hash"])

    def _build_event(self, row: dict[str, Any], place: str) -> Event | None:
        if row["type"] == "erased":
            return None
        shared = {"uuid": uuid.UUID(row["uuid"]), "created_at": datetime.fromisoformat(row["created_at"])}
        if row["type"] == "retraction":
            link = {name: row[name] for name in ("sequence", "previous_hash", "hash")}
            return Retraction(project=self.project, judgement=self.judgements[row["judgement"]], **link, **shared)
        if row["type"] != "judgement":
            raise ArchiveError(f"There is an event of an unknown type in {place}.")
        judgement = Judgement(
            project=self.project,
            worker=self.workers[row["worker"]],
            item_lo=self.items[tuple(row["lo"])],
            item_hi=self.items[tuple(row["hi"])],
            **{name: row[name] for name in JUDGEMENT_FIELDS},
            **shared,
        )
        if judgement.source == Judgement.Source.BROWSER:
            judgement.assignment = _build_lease(judgement)
        self.judgements[row["uuid"]] = judgement
        return judgement


def _build_lease(judgement: Judgement) -> Assignment:
    """Create the lease that a browser judgement needs; archives leave leases out, because no fit uses them."""
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
    queries.insert([lease])
    return lease


def _finite_score(mean: Any) -> float:
    """Return the score; raise ValueError if it is not finite, because NaN could go unnoticed in a comparison."""
    if not math.isfinite(mean):
        raise ValueError
    return float(mean)


def compare_rankings(folder: Path, snapshot: ModelSnapshot) -> tuple[bool, float | None]:
    """Return whether the order is the same, and the largest score difference; None if the items differ."""
    rows = snapshot.scores.order_by("rank").values_list("item__key", "item__revision", "mean")
    ours = {(key, revision): mean for key, revision, mean in rows}
    try:
        archived = (row for _, row in read_json_lines(folder / RANKING))
        theirs = {(row["key"], row["revision"]): _finite_score(row["mean"]) for row in archived}
    except (KeyError, TypeError, ValueError):
        raise ArchiveError("The ranking of this archive cannot be read.") from None
    if ours.keys() != theirs.keys():
        return False, None
    return list(ours) == list(theirs), max((abs(ours[key] - theirs[key]) for key in ours), default=0.0)
