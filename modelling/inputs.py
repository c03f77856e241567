"""Rows become arrays: what the model learns from, read at one moment, with every judgement accounted for.

A fit from scratch reads everything. A step reads only the events since the version it goes on from: counts and data
hash are carried on from that version, so the cost of a step does not grow with the log.
"""

import hashlib
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from django.db.models import QuerySet
from numpy.typing import NDArray

from annotation import faults
from annotation.models import EventHead, Item, Judgement, Project, Retraction, Worker
from modelling.crowdgppl import PairwiseLabels
from modelling.crowdgppl.sources import Index, RowsInOrder
from modelling.models import ModelSnapshot

Row = dict[str, Any]
Ids = NDArray[np.int64]

PREFERENCE = {Judgement.Choice.LO: 1.0, Judgement.Choice.HI: 0.0, Judgement.Choice.TIE: 0.5}
FIELDS = ("sequence", "worker", "item_lo", "item_hi", "choice", "retraction__sequence")
CHUNK = 2000
PAGE_WORKERS = 500
RETRACTED, SKIPPED = "retracted", "skipped"


@dataclass(frozen=True)
class Moment:
    """How far a project's log and inputs had come when they were read."""

    sequence: int
    inputs_revision: int


@dataclass(frozen=True)
class Counts:
    """Every judgement up to a moment: learned from, or left out for a reason."""

    included: int
    excluded: dict[str, int]


@dataclass(frozen=True)
class Inputs:
    """Everything a fit from scratch needs. Positions in `items` and `workers` are the indices of the fit."""

    moment: Moment
    items: list[Item]
    workers: list[Worker]
    labels: PairwiseLabels
    counts: Counts
    data_hash: str
    came: Ids | None = None  # (P,) the place of each label in the order in which they were given


@dataclass(frozen=True)
class News:
    """What has changed since a version, in the indices of its model; items and workers it did not know come last."""

    moment: Moment
    learned: PairwiseLabels
    forgotten: PairwiseLabels
    item_ids: Ids
    worker_ids: Ids
    traits: list[dict[str, Any]]  # of the workers it did not know, in their order
    counts: Counts
    data_hash: str


def moment_of(project: Project) -> Moment:
    head = EventHead.objects.get(project=project)
    return Moment(head.sequence, head.inputs_revision)


def read_inputs(project: Project, moment: Moment | None = None) -> Inputs:
    """The judgements up to a moment, or to now.

    No transaction: events never change, so those up to a sequence are one moment.
    """
    moment = moment or moment_of(project)
    log = _read_log(project, moment.sequence)
    judged, answering = set(np.unique([log.lo, log.hi]).tolist()), set(np.unique(log.worker).tolist())
    items = [item for item in Item.objects.filter(project=project) if item.active or item.pk in judged]
    workers = [worker for worker in Worker.objects.filter(project=project) if worker.pk in answering]
    faults.hit("read_labels")
    return _inputs(moment, log, items, workers)


def read_inputs_again(snapshot: ModelSnapshot, items: list[Item], workers: list[Worker]) -> Inputs:
    """What a version learned from the log up to its moment; items and workers are those of its arrays."""
    moment = Moment(snapshot.last_sequence, snapshot.inputs_revision)
    return _inputs(moment, _read_log(snapshot.project, moment.sequence), items, workers)


def _inputs(moment: Moment, log: "Log", items: list[Item], workers: list[Worker]) -> Inputs:
    at_items, at_workers = Places.of(ids_of(items)), Places.of(ids_of(workers))
    u, a, b = at_workers[log.worker], at_items[log.lo], at_items[log.hi]
    order = _same_whoever_was_quicker(u, a, b, log.y)
    labels = PairwiseLabels(u=u[order], a=a[order], b=b[order], y=log.y[order])
    return Inputs(moment, items, workers, labels, log.counts, log.hash_with(items), order)


def read_news(parent: ModelSnapshot, moment: Moment, item_ids: Ids, worker_ids: Ids) -> News:
    """The judgements that came after a version, and those it knew that were taken back after it."""
    came, gone = _came(parent, moment.sequence), _gone(parent, moment.sequence)
    standing = [row for row in came if not _retracted_by(row, moment.sequence)]
    learned = [row for row in standing if row["choice"] in PREFERENCE]
    forgotten = [row for row in gone if row["choice"] in PREFERENCE]
    items = _with_new(item_ids, (row[end] for row in learned for end in ("item_lo", "item_hi")))
    workers = _with_new(worker_ids, (row["worker"] for row in learned))
    places = Places.of(items), Places.of(workers)
    faults.hit("read_labels")
    return News(
        moment=moment,
        learned=_labels(learned, *places),
        forgotten=_labels(forgotten, *places),
        item_ids=items,
        worker_ids=workers,
        traits=_traits_of(workers[len(worker_ids) :]),
        counts=_carried(parent, came, gone, moment.sequence),
        data_hash=hash_of_news(parent, came, gone, moment.sequence),
    )


def _traits_of(worker_ids: Ids) -> list[dict[str, Any]]:
    """What these workers told about themselves; one statement, or none where nobody is new."""
    if not len(worker_ids):
        return []
    told = dict(Worker.objects.filter(pk__in=worker_ids.tolist()).values_list("pk", "traits"))
    return [told.get(pk, {}) for pk in worker_ids.tolist()]


def ids_of(rows: Sequence[Item | Worker]) -> Ids:
    return np.array([row.pk for row in rows], dtype=np.int64)


def _with_new(known: Ids, met: Iterable[int]) -> Ids:
    """The known ids, and after them those met for the first time, by number."""
    return np.append(known, sorted(set(met) - set(known.tolist()))).astype(np.int64)


def _retracted_by(row: Row, sequence: int) -> bool:
    return row["retraction__sequence"] is not None and row["retraction__sequence"] <= sequence


def _events(project: Project) -> "QuerySet[Judgement, Row]":
    return Judgement.objects.filter(project=project).order_by("sequence").values(*FIELDS)


def _came(parent: ModelSnapshot, until: int) -> list[Row]:
    """The judgements given after a version, whatever became of them."""
    return list(_events(parent.project).filter(sequence__gt=parent.last_sequence, sequence__lte=until))


def _gone(parent: ModelSnapshot, until: int) -> list[Row]:
    """The judgements a version had counted that were taken back after it."""
    since = Retraction.objects.filter(project=parent.project, sequence__gt=parent.last_sequence, sequence__lte=until)
    known = since.filter(judgement__sequence__lte=parent.last_sequence)
    return list(_events(parent.project).filter(pk__in=list(known.values_list("judgement", flat=True))))


@dataclass(frozen=True)
class Log:
    """The judgements that count, in order, as columns of numbers; a million of them need little memory."""

    worker: Ids
    lo: Ids
    hi: Ids
    y: NDArray[np.float64]
    counts: Counts
    digest: Any

    def hash_with(self, items: Iterable[Item]) -> str:
        """SHA-256 of what a fit from scratch learns from: the judgements in order and the texts they are about."""
        digest = self.digest.copy()
        for item in items:
            digest.update(f"{item.pk}:{item.text}\0;".encode())
        return str(digest.hexdigest())


def _read_log(project: Project, until: int) -> Log:
    workers, los, his, ys = array("q"), array("q"), array("q"), array("d")
    excluded, digest = Counter[str](), hashlib.sha256()
    for row in _events(project).filter(sequence__lte=until).iterator(chunk_size=CHUNK):
        reason = _reason_to_leave_out(row, until)
        if reason:
            excluded[reason] += 1
            continue
        digest.update(_said(row))
        for column, value in zip((workers, los, his), (row["worker"], row["item_lo"], row["item_hi"]), strict=True):
            column.append(value)
        ys.append(PREFERENCE[row["choice"]])
    worker, lo, hi = (np.array(column, dtype=np.int64) for column in (workers, los, his))
    return Log(worker, lo, hi, np.array(ys, dtype=np.float64), Counts(len(ys), dict(excluded)), digest)


def _reason_to_leave_out(row: Row, until: int) -> str:
    if _retracted_by(row, until):
        return RETRACTED
    return SKIPPED if row["choice"] == Judgement.Choice.SKIP else ""


def _carried(parent: ModelSnapshot, came: list[Row], gone: list[Row], until: int) -> Counts:
    """The parent's counts moved on by what came and what was taken back."""
    total = Counter({"": parent.included, **parent.excluded})
    total.update(_reason_to_leave_out(row, until) for row in came)
    for row in gone:
        total[SKIPPED if row["choice"] == Judgement.Choice.SKIP else ""] -= 1
        total[RETRACTED] += 1
    return Counts(total.pop("", 0), {reason: count for reason, count in total.items() if count})


@dataclass(frozen=True)
class Places:
    """From ids to their positions in a list of ids."""

    order: Ids
    ids: Ids  # in order

    @classmethod
    def of(cls, ids: Ids) -> "Places":
        order = np.argsort(ids, kind="stable")
        return cls(order, ids[order])

    def __getitem__(self, wanted: Ids) -> Ids:
        return np.asarray(self.order[np.searchsorted(self.ids, wanted)], dtype=np.int64)


class JudgementPages(RowsInOrder):
    """The judgements up to a moment as a source of mini-batches, for logs that memory cannot hold.

    Indexed once, by pages of workers each of which begins after the last worker of the page before; then a batch is
    read by its workers. Positions in `item_ids` and `worker_ids` are those that `read_inputs` would give, and so are
    the labels: events up to a sequence never change.
    """

    def __init__(self, project: Project, moment: Moment) -> None:
        self.project, self.moment = project, moment
        items = Item.objects.filter(project=project)
        self.item_ids, self.worker_ids = _ids(items), _ids(Worker.objects.none())
        self.counted = np.isin(self.item_ids, _ids(items.filter(active=True)))
        found = Index.of(self._pages())
        self.item_ids = self.item_ids[self.counted]
        self.index = replace(found, n_items=len(self.item_ids))

    def _pages(self) -> Iterator[PairwiseLabels]:
        last, workers = 0, Worker.objects.filter(project=self.project).order_by("pk")
        while len(page := _ids(workers.filter(pk__gt=last)[:PAGE_WORKERS])):
            rows = self._standing(page)
            self.worker_ids = np.append(self.worker_ids, np.unique([row["worker"] for row in rows]).astype(np.int64))
            labels = self._in_order(rows)
            self.counted[labels.a] = self.counted[labels.b] = True
            yield labels
            last = int(page[-1])

    def _standing(self, worker_ids: Ids) -> list[Row]:
        rows = _events(self.project).filter(sequence__lte=self.moment.sequence, worker__in=worker_ids.tolist())
        return [row for row in rows.iterator(chunk_size=CHUNK) if not _reason_to_leave_out(row, self.moment.sequence)]

    def _in_order(self, rows: list[Row]) -> PairwiseLabels:
        labels = _labels(rows, Places.of(self.item_ids), Places.of(self.worker_ids))
        return labels.take(_same_whoever_was_quicker(labels.u, labels.a, labels.b, labels.y))

    def of_users(self, users: Ids) -> PairwiseLabels:
        """The labels of these workers, by position, read from their rows."""
        return self.index.checked(self._in_order(self._standing(self.worker_ids[users[users < self.n_users]])), users)


def _ids(rows: "QuerySet[Any]") -> Ids:
    return np.array(rows.values_list("pk", flat=True), dtype=np.int64)


def _same_whoever_was_quicker(u: Ids, a: Ids, b: Ids, y: NDArray[np.float64]) -> Ids:
    """The order in which the same answers give the same model, whoever was quicker."""
    return np.lexsort((y, b, a, u))


def _labels(rows: list[Row], items: Places, workers: Places) -> PairwiseLabels:
    u, a, b = (np.array([row[name] for row in rows], dtype=np.int64) for name in ("worker", "item_lo", "item_hi"))
    y = np.array([PREFERENCE[row["choice"]] for row in rows], dtype=np.float64)
    return PairwiseLabels(u=workers[u], a=items[a], b=items[b], y=y)


def hash_of_news(parent: ModelSnapshot, came: list[Row], gone: list[Row], until: int) -> str:
    """SHA-256 of the parent's hash and of what came and went since: it can be told again from the log."""
    digest = hashlib.sha256(parent.data_hash.encode())
    for row in came:
        digest.update((b"o" if _retracted_by(row, until) else b"+") + _said(row))
    for row in gone:
        digest.update(b"-" + _said(row))
    return digest.hexdigest()


def data_hash_again(snapshot: ModelSnapshot, items: Iterable[Item]) -> str:
    """A version's data hash, told again from the log; `items` are those of its arrays, in their order."""
    parent, until = snapshot.parent, snapshot.last_sequence
    if snapshot.kind == ModelSnapshot.Kind.STEP and parent is not None:
        return hash_of_news(parent, _came(parent, until), _gone(parent, until), until)
    return _read_log(snapshot.project, until).hash_with(items)


def _said(row: Row) -> bytes:
    return f"{row['sequence']},{row['worker']},{row['item_lo']},{row['item_hi']},{row['choice']};".encode()
