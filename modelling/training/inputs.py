"""Read the labels that a model learns from into arrays; count every judgement as included or excluded.

A refit reads the whole log: all labels at once, or those of a large study worker by worker. A step reads only the
events since its parent version: counts and data hash are carried over from the parent, so that the cost of a step does
not grow with the log.
"""

import hashlib
from array import array
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from django.db.models import Q, QuerySet
from numpy.typing import NDArray

from annotation.models import EventHead, Item, Judgement, Project, Retraction, Worker, WorkerExclusion
from annotation.storage import fault_injection
from modelling.crowdgppl import PairwiseLabels
from modelling.models import ModelSnapshot

Row = dict[str, Any]
Ids = NDArray[np.int64]
Floats = NDArray[np.float64]

PREFERENCE = {Judgement.Choice.LO: 1.0, Judgement.Choice.HI: 0.0, Judgement.Choice.TIE: 0.5}
FIELDS = ("sequence", "worker", "item_lo", "item_hi", "choice", "retraction__sequence")
CHUNK = 2000
IN_MEMORY = 200_000  # a study with more events is fitted from the database
LABELS_PER_QUERY = 20_000
RETRACTED, SKIPPED, EXCLUDED = "retracted", "skipped", "excluded"  # reasons why a judgement does not count
HASH_MARKS = {RETRACTED: b"o", EXCLUDED: b"x"}  # for new judgements in the data hash of a step


@dataclass(frozen=True)
class ReadPoint:
    """The last event and the inputs revision that were read."""

    sequence: int
    inputs_revision: int


@dataclass(frozen=True)
class Counts:
    """All judgements up to a read point: included, or excluded by reason."""

    included: int
    excluded: dict[str, int]


class WorkerRecord(NamedTuple):
    """The fields of a worker that a fit needs; full rows of hundreds of thousands of workers would fill memory."""

    pk: int
    traits: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class InputSummary:
    """Everything a refit needs except the labels, which may be too many to hold at once."""

    read_point: ReadPoint
    items: list[Item]
    workers: Sequence["Worker | WorkerRecord"]
    counts: Counts
    data_hash: str
    label_counts: Ids  # the number of labels by each worker
    item_counts: Ids  # the number of labels about each item


@dataclass(frozen=True, kw_only=True)
class Inputs(InputSummary):
    """Everything a refit needs. The labels refer to positions in `items` and `workers` and are sorted by worker."""

    labels: PairwiseLabels
    sequences: Ids  # (P,) of each label
    log_order: Ids  # (P,) the position of each label in the event log

    @classmethod
    def from_labels(cls, items: list[Item], workers: list[Worker], labels: PairwiseLabels) -> "Inputs":
        """Build inputs from labels that were not read from a log, in the order in which they were given."""
        n = len(labels)
        return _assemble(ReadPoint(n, 0), items, workers, labels, Counts(n, {}), np.arange(n))


@dataclass(frozen=True)
class InputDelta:
    """What has changed since a version. New items and workers are appended to the version's ids."""

    read_point: ReadPoint
    added: PairwiseLabels
    removed: PairwiseLabels
    added_sequences: Ids
    removed_sequences: Ids
    item_ids: Ids
    worker_ids: Ids
    traits: list[dict[str, Any]]  # of the new workers
    counts: Counts
    data_hash: str


def get_read_point(project: Project) -> ReadPoint:
    """The current end of the project's event log."""
    head = EventHead.objects.get(project=project)
    return ReadPoint(head.sequence, head.inputs_revision)


def excluded_workers(project_id: int, inputs_revision: int) -> set[int]:
    """Primary keys of the workers whose judgements are excluded at this inputs revision."""
    return WorkerExclusion.objects.in_force(project_id, inputs_revision).worker_ids()


# A refit ------------------------------------------------------------------------------------------------------------


def read_inputs(project: Project, read_point: ReadPoint | None = None) -> Inputs:
    """Read all judgements up to a read point, by default the current one.

    Needs no transaction: events never change, so those up to a sequence are always the same.
    """
    read_point = read_point or get_read_point(project)
    counted = _read_judgements(project, read_point)
    judged = set(np.unique([counted.item_lo, counted.item_hi]).tolist())
    judging = set(np.unique(counted.worker).tolist())
    items, workers = _read_items(project, judged), _read_workers(project, judging)
    fault_injection.maybe_fail("read_labels")
    return _build_inputs(read_point, counted, items, workers)


def read_summary(project: Project, read_point: ReadPoint) -> InputSummary:
    """Read all judgements like `read_inputs`, but keep none: the labels are read later, worker by worker."""
    scan = LogScan(project, read_point)
    judged, judging = Counter[int](), Counter[int]()
    for _sequence, worker, lo, hi, _choice in scan:
        judging[worker] += 1
        judged[lo] += 1
        judged[hi] += 1
    items = _read_items(project, set(judged))
    records = Worker.objects.filter(project=project).values_list("pk", "traits").iterator(chunk_size=CHUNK)
    workers = [WorkerRecord(pk, traits) for pk, traits in records if pk in judging]
    fault_injection.maybe_fail("read_labels")
    return InputSummary(
        read_point=read_point,
        items=items,
        workers=workers,
        counts=scan.counts,
        data_hash=scan.data_hash(items),
        label_counts=np.array([judging[worker.pk] for worker in workers], dtype=np.int64),
        item_counts=np.array([judged[item.pk] for item in items], dtype=np.int64),
    )


def _read_items(project: Project, judged: set[int]) -> list[Item]:
    return [item for item in Item.objects.filter(project=project) if item.active or item.pk in judged]


def _read_workers(project: Project, judging: set[int]) -> list[Worker]:
    return [worker for worker in Worker.objects.filter(project=project) if worker.pk in judging]


@dataclass(frozen=True)
class WorkerLabels:
    """All labels of some workers, sorted like those of `Inputs`."""

    labels: PairwiseLabels
    sequences: Ids


def read_labels_by_worker(inputs: InputSummary) -> Iterator[WorkerLabels]:
    """Read the labels of all workers of a large study, some workers at a time."""
    worker_ids, item_ids = primary_keys(inputs.workers), primary_keys(inputs.items)
    worker_index, item_index = IdIndex.build(worker_ids), IdIndex.build(item_ids)
    until, fields = inputs.read_point.sequence, ("sequence", "worker", "item_lo", "item_hi", "choice")
    standing = Q(retraction=None) | Q(retraction__sequence__gt=until)
    batch = np.cumsum(inputs.label_counts) // LABELS_PER_QUERY * len(worker_ids) + np.arange(len(worker_ids)) // CHUNK
    for some in np.split(worker_ids, np.flatnonzero(np.diff(batch)) + 1):
        theirs = Judgement.objects.filter(worker__in=some.tolist(), sequence__lte=until, choice__in=list(PREFERENCE))
        rows = list(theirs.filter(standing).order_by().values_list(*fields))
        sequence, worker, lo, hi = (np.array([row[n] for row in rows], dtype=np.int64) for n in range(4))
        y = np.array([PREFERENCE[row[4]] for row in rows], dtype=np.float64)
        labels, order = _sort_labels(worker_index[worker], item_index[lo], item_index[hi], y, sequence)
        yield WorkerLabels(labels, sequence[order])


def read_snapshot_inputs(snapshot: ModelSnapshot, items: list[Item], workers: list[Worker]) -> Inputs:
    """Read a refit's inputs again; `items` and `workers` are those of its arrays."""
    read_point = ReadPoint(snapshot.last_sequence, snapshot.inputs_revision)
    return _build_inputs(read_point, _read_judgements(snapshot.project, read_point), items, workers)


@dataclass(frozen=True)
class CountedJudgements:
    """The included judgements in the order of the log, as columns: a million of them need little memory."""

    sequence: Ids
    worker: Ids
    item_lo: Ids
    item_hi: Ids
    y: Floats
    scan: "LogScan"


class LogScan:
    """One pass over the log: iterates over the included judgements, counts all, and computes the data hash."""

    def __init__(self, project: Project, read_point: ReadPoint) -> None:
        self.project, self.until = project, read_point.sequence
        self.excluded_workers = excluded_workers(project.pk, read_point.inputs_revision)
        self.included, self.excluded, self.digest = 0, Counter[str](), hashlib.sha256()

    def __iter__(self) -> Iterator[tuple[int, int, int, int, Any]]:
        """Yield sequence, worker, lower item, higher item and choice of each included judgement."""
        rows = Judgement.objects.filter(project=self.project, sequence__lte=self.until).order_by("sequence")
        for sequence, worker, lo, hi, choice, retracted in rows.values_list(*FIELDS).iterator(chunk_size=CHUNK):
            if retracted is not None and retracted <= self.until:
                self.excluded[RETRACTED] += 1
            elif choice == Judgement.Choice.SKIP:
                self.excluded[SKIPPED] += 1
            elif worker in self.excluded_workers:
                self.excluded[EXCLUDED] += 1
            else:
                self.included += 1
                self.digest.update(f"{sequence},{worker},{lo},{hi},{choice};".encode())
                yield sequence, worker, lo, hi, choice

    @property
    def counts(self) -> Counts:
        return Counts(self.included, dict(self.excluded))

    def data_hash(self, items: Iterable[Item]) -> str:
        """SHA-256 of the included judgements and the texts of the items."""
        digest = self.digest.copy()
        for item in items:
            digest.update(f"{item.pk}:{item.text}\0;".encode())
        return digest.hexdigest()


def _read_judgements(project: Project, read_point: ReadPoint) -> CountedJudgements:
    sequences, workers, los, his, ys = array("q"), array("q"), array("q"), array("q"), array("d")
    scan = LogScan(project, read_point)
    for sequence, worker, lo, hi, choice in scan:
        sequences.append(sequence)
        workers.append(worker)
        los.append(lo)
        his.append(hi)
        ys.append(PREFERENCE[choice])
    sequence_, worker_, lo_, hi_ = (np.array(column, dtype=np.int64) for column in (sequences, workers, los, his))
    return CountedJudgements(sequence_, worker_, lo_, hi_, np.array(ys, dtype=np.float64), scan)


def _build_inputs(
    read_point: ReadPoint, counted: CountedJudgements, items: list[Item], workers: list[Worker]
) -> Inputs:
    item_index, worker_index = IdIndex.build(primary_keys(items)), IdIndex.build(primary_keys(workers))
    u, a, b = worker_index[counted.worker], item_index[counted.item_lo], item_index[counted.item_hi]
    labels, order = _sort_labels(u, a, b, counted.y, counted.sequence)
    inputs = _assemble(read_point, items, workers, labels, counted.scan.counts, order)
    return replace(inputs, data_hash=counted.scan.data_hash(items), sequences=counted.sequence[order])


def _assemble(
    read_point: ReadPoint, items: list[Item], workers: list[Worker], labels: PairwiseLabels, counts: Counts, order: Ids
) -> Inputs:
    return Inputs(
        read_point=read_point,
        items=items,
        workers=workers,
        counts=counts,
        data_hash="",
        label_counts=np.bincount(labels.u, minlength=len(workers)),
        item_counts=np.bincount(labels.a, minlength=len(items)) + np.bincount(labels.b, minlength=len(items)),
        labels=labels,
        sequences=order + 1,
        log_order=order,
    )


def _sort_labels(u: Ids, a: Ids, b: Ids, y: Floats, sequence: Ids) -> tuple[PairwiseLabels, Ids]:
    """Sort labels by worker, items and answer, so that the model does not depend on their order; return it as well."""
    order = np.lexsort((sequence, y, b, a, u))
    return PairwiseLabels(u=u[order], a=a[order], b=b[order], y=y[order]), order


# A step -------------------------------------------------------------------------------------------------------------


def read_delta(parent: ModelSnapshot, read_point: ReadPoint, item_ids: Ids, worker_ids: Ids) -> InputDelta:
    """Read the judgements added after a version, and those it knew that were retracted after it."""
    until, excluded = read_point.sequence, excluded_workers(parent.project_id, parent.inputs_revision)
    new, retracted = _new_rows(parent, until), _newly_retracted_rows(parent, until)
    added = [row for row in new if not _exclusion_reason(row, until, excluded)]
    removed = [row for row in retracted if row["choice"] in PREFERENCE and row["worker"] not in excluded]
    items = _append_new(item_ids, (row[end] for row in added for end in ("item_lo", "item_hi")))
    workers = _append_new(worker_ids, (row["worker"] for row in added))
    item_index, worker_index = IdIndex.build(items), IdIndex.build(workers)
    fault_injection.maybe_fail("read_labels")
    return InputDelta(
        read_point=read_point,
        added=_build_labels(added, item_index, worker_index),
        removed=_build_labels(removed, item_index, worker_index),
        added_sequences=np.array([row["sequence"] for row in added], dtype=np.int64),
        removed_sequences=np.array([row["sequence"] for row in removed], dtype=np.int64),
        item_ids=items,
        worker_ids=workers,
        traits=_read_traits(workers[len(worker_ids) :]),
        counts=_update_counts(parent, new, retracted, until, excluded),
        data_hash=delta_hash(parent, new, retracted, until, excluded),
    )


def _new_rows(parent: ModelSnapshot, until: int) -> list[Row]:
    """The judgements made after a version, including retracted ones."""
    return list(_judgement_rows(parent.project).filter(sequence__gt=parent.last_sequence, sequence__lte=until))


def _newly_retracted_rows(parent: ModelSnapshot, until: int) -> list[Row]:
    """The judgements from before a version that were retracted after it."""
    since = Retraction.objects.filter(project=parent.project, sequence__gt=parent.last_sequence, sequence__lte=until)
    known = since.filter(judgement__sequence__lte=parent.last_sequence)
    return list(_judgement_rows(parent.project).filter(pk__in=list(known.values_list("judgement", flat=True))))


def _append_new(known: Ids, found: Iterable[int]) -> Ids:
    return np.append(known, sorted(set(found) - set(known.tolist()))).astype(np.int64)


def _build_labels(rows: list[Row], items: "IdIndex", workers: "IdIndex") -> PairwiseLabels:
    u, a, b = (np.array([row[name] for row in rows], dtype=np.int64) for name in ("worker", "item_lo", "item_hi"))
    y = np.array([PREFERENCE[row["choice"]] for row in rows], dtype=np.float64)
    return PairwiseLabels(u=workers[u], a=items[a], b=items[b], y=y)


def _read_traits(worker_ids: Ids) -> list[dict[str, Any]]:
    if not len(worker_ids):
        return []
    traits = dict(Worker.objects.filter(pk__in=worker_ids.tolist()).values_list("pk", "traits"))
    return [traits.get(pk, {}) for pk in worker_ids.tolist()]


def _update_counts(
    parent: ModelSnapshot, new: list[Row], retracted: list[Row], until: int, excluded: set[int]
) -> Counts:
    """The parent's counts, updated with new judgements and new retractions."""
    total = Counter({"": parent.included, **parent.excluded})
    total.update(_exclusion_reason(row, until, excluded) for row in new)
    for row in retracted:
        total[_exclusion_reason(row, parent.last_sequence, excluded)] -= 1
        total[RETRACTED] += 1
    return Counts(total.pop("", 0), {reason: count for reason, count in total.items() if count})


def delta_hash(parent: ModelSnapshot, new: list[Row], retracted: list[Row], until: int, excluded: set[int]) -> str:
    """SHA-256 of the parent's hash and the events since then; it can be recomputed from the log."""
    digest = hashlib.sha256(parent.data_hash.encode())
    for row in new:
        digest.update(HASH_MARKS.get(_exclusion_reason(row, until, excluded), b"+") + _encode(row))
    for row in retracted:
        digest.update(b"-" + _encode(row))
    return digest.hexdigest()


def recompute_data_hash(snapshot: ModelSnapshot, items: Iterable[Item]) -> str:
    """A version's data hash, computed from the log; `items` are those of its arrays, in their order."""
    parent, until = snapshot.parent, snapshot.last_sequence
    if snapshot.kind == ModelSnapshot.Kind.STEP and parent is not None:
        excluded = excluded_workers(snapshot.project_id, snapshot.inputs_revision)
        return delta_hash(parent, _new_rows(parent, until), _newly_retracted_rows(parent, until), until, excluded)
    scan = LogScan(snapshot.project, ReadPoint(until, snapshot.inputs_revision))
    deque(scan, maxlen=0)
    return scan.data_hash(items)


# Rows ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class IdIndex:
    """Maps primary keys to their positions in an array of keys."""

    order: Ids
    sorted_ids: Ids

    @classmethod
    def build(cls, ids: Ids) -> "IdIndex":
        order = np.argsort(ids, kind="stable")
        return cls(order, ids[order])

    def __getitem__(self, wanted: Ids) -> Ids:
        return np.asarray(self.order[np.searchsorted(self.sorted_ids, wanted)], dtype=np.int64)


def primary_keys(rows: Sequence[Item | Worker | WorkerRecord]) -> Ids:
    return np.array([row.pk for row in rows], dtype=np.int64)


def _judgement_rows(project: Project) -> "QuerySet[Judgement, Row]":
    return Judgement.objects.filter(project=project).order_by("sequence").values(*FIELDS)


def _exclusion_reason(row: Row, until: int, excluded: set[int]) -> str:
    """Why a judgement is excluded, or an empty string; reasons are checked in the same order as in `LogScan`."""
    if row["retraction__sequence"] is not None and row["retraction__sequence"] <= until:
        return RETRACTED
    if row["choice"] == Judgement.Choice.SKIP:
        return SKIPPED
    return EXCLUDED if row["worker"] in excluded else ""


def _encode(row: Row) -> bytes:
    """Encode a judgement for the data hash."""
    return f"{row['sequence']},{row['worker']},{row['item_lo']},{row['item_hi']},{row['choice']};".encode()
