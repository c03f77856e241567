"""Rows become arrays: what the model learns from, read at one moment, with every judgement accounted for."""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from annotation.models import EventHead, Item, Judgement, Project, Worker
from modelling.crowdgppl import PairwiseLabels

Row = dict[str, Any]
Ids = NDArray[np.int64]

PREFERENCE = {Judgement.Choice.LO: 1.0, Judgement.Choice.HI: 0.0, Judgement.Choice.TIE: 0.5}


@dataclass(frozen=True)
class Moment:
    """How far a project's log and inputs had come when they were read."""

    sequence: int
    inputs_revision: int


@dataclass(frozen=True)
class Inputs:
    """Everything one fit needs. Positions in `items` and `workers` are the indices of a fit from scratch."""

    moment: Moment
    items: list[Item]
    workers: list[Worker]
    rows: list[Row]
    retracted: list[Row]
    labels: PairwiseLabels
    excluded: dict[str, int]
    data_hash: str

    @property
    def judgements_per_item(self) -> NDArray[np.int64]:
        n = len(self.items)
        return np.bincount(self.labels.a, minlength=n) + np.bincount(self.labels.b, minlength=n)


@dataclass(frozen=True)
class News:
    """What has changed since a model was fitted, in that model's indices; workers it did not know come last."""

    learned: PairwiseLabels
    forgotten: PairwiseLabels
    worker_ids: Ids


def moment_of(project: Project) -> Moment:
    head = EventHead.objects.get(project=project)
    return Moment(head.sequence, head.inputs_revision)


def read_inputs(project: Project) -> Inputs:
    """The judgements up to now. No transaction: events never change, so those up to a sequence are one moment."""
    moment = moment_of(project)
    rows, retracted, excluded = _standing_rows(project, moment)
    judged = {item for row in rows for item in (row["item_lo"], row["item_hi"])}
    items = [item for item in Item.objects.filter(project=project) if item.active or item.pk in judged]
    answering = {row["worker"] for row in rows}
    workers = [worker for worker in Worker.objects.filter(project=project) if worker.pk in answering]
    labels = _labels(rows, _positions(ids_of(items)), _positions(ids_of(workers)))
    return Inputs(moment, items, workers, rows, retracted, labels, dict(excluded), _hash(rows, items))


def news_since(inputs: Inputs, sequence: int, item_ids: Ids, worker_ids: Ids) -> News:
    """The judgements that came after this event, and those of before that were taken back after it."""
    known = set(worker_ids.tolist())
    everyone = np.append(worker_ids, [worker.pk for worker in inputs.workers if worker.pk not in known])
    item_at, worker_at = _positions(item_ids), _positions(everyone.astype(np.int64))
    came = [row for row in inputs.rows if row["sequence"] > sequence]
    went = [row for row in inputs.retracted if row["sequence"] <= sequence < row["retraction__sequence"]]
    went = [row for row in went if row["choice"] in PREFERENCE]
    labels = [_labels(rows, item_at, worker_at) for rows in (came, went)]
    return News(labels[0], labels[1], everyone.astype(np.int64))


def ids_of(rows: Sequence[Item | Worker]) -> Ids:
    return np.array([row.pk for row in rows], dtype=np.int64)


def _standing_rows(project: Project, moment: Moment) -> tuple[list[Row], list[Row], Counter[str]]:
    """The judgements that count, in order; those taken back; and how many were left out for which reason."""
    fields = ("sequence", "worker", "item_lo", "item_hi", "choice", "retraction__sequence")
    events = Judgement.objects.filter(project=project, sequence__lte=moment.sequence).values(*fields)
    rows, retracted, excluded = [], [], Counter[str]()
    for row in events.order_by("sequence").iterator():
        if (row["retraction__sequence"] or moment.sequence + 1) <= moment.sequence:
            excluded["retracted"] += 1
            retracted.append(row)
        elif row["choice"] == Judgement.Choice.SKIP:
            excluded["skipped"] += 1
        else:
            rows.append(row)
    return rows, retracted, excluded


def _positions(ids: Ids) -> dict[int, int]:
    return {int(pk): position for position, pk in enumerate(ids)}


def _labels(rows: list[Row], item_at: dict[int, int], worker_at: dict[int, int]) -> PairwiseLabels:
    return PairwiseLabels(
        u=np.array([worker_at[row["worker"]] for row in rows], dtype=np.int64),
        a=np.array([item_at[row["item_lo"]] for row in rows], dtype=np.int64),
        b=np.array([item_at[row["item_hi"]] for row in rows], dtype=np.int64),
        y=np.array([PREFERENCE[row["choice"]] for row in rows], dtype=float),
    )


def _hash(rows: list[Row], items: list[Item]) -> str:
    """SHA-256 of what was learned from: the judgements in order and the texts they are about."""
    digest = hashlib.sha256()
    for row in rows:
        digest.update(f"{row['sequence']},{row['worker']},{row['item_lo']},{row['item_hi']},{row['choice']};".encode())
    for item in items:
        digest.update(f"{item.pk}:{item.text}\0{sorted(item.features.items())};".encode())
    return digest.hexdigest()
