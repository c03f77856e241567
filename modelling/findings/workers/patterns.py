"""Patterns in a worker's answers that need no model: sides, repeats, circular triples, speed. Arrays in, counts out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix

from modelling.crowdgppl.arrays import FloatArray, IntArray

MAX_ANSWERS = 200  # newest answers of a worker; more would cost time and change nothing
CHARACTERS_PER_SECOND, LEAST_MS = 100.0, 1000.0  # faster answers are too fast to have read both texts
MIN_SHARED, ALIKE = 15, 5.0  # pairs that two workers share, and standard deviations of agreement above expectation


@dataclass(frozen=True, eq=False)
class AnswerSheet:
    """All answers in order of time: worker, items, y (1, 0, .5 a tie), the side chosen and the time it took.

    `left` is 1 where the left text was chosen and 0 where the right one was; `left`, `ms` and `characters`, the length
    of both texts, are NaN where they are unknown.
    """

    u: IntArray
    a: IntArray
    b: IntArray
    y: FloatArray
    left: FloatArray
    ms: FloatArray
    characters: FloatArray

    def take(self, rows: IntArray) -> AnswerSheet:
        return AnswerSheet(*(getattr(self, name)[rows] for name in self.__dataclass_fields__))

    def of(self, worker: int) -> AnswerSheet:
        """The decided answers of one worker, at most the newest MAX_ANSWERS."""
        return self.take(np.flatnonzero((self.u == worker) & (self.y != 0.5))[-MAX_ANSWERS:])


@dataclass(frozen=True)
class Patterns:
    """Counts over the decided answers of one worker."""

    left: int  # choices of the left text
    sided: int  # answers whose sides are known
    repeated: int  # pairs answered more than once
    contradicted: int  # those of them with different answers
    triples: int  # triples of items with all three pairs compared
    circular: int  # those of them with A above B above C above A
    too_fast: int
    timed: int


def find_patterns(sheet: AnswerSheet) -> Patterns:
    repeated, contradicted = count_repeats(sheet)
    triples, circular = count_triples(sheet)
    least = np.maximum(LEAST_MS, 1000.0 * np.nan_to_num(sheet.characters) / CHARACTERS_PER_SECOND)
    return Patterns(
        left=int(np.nansum(sheet.left)), sided=int(np.isfinite(sheet.left).sum()), repeated=repeated,
        contradicted=contradicted, triples=triples, circular=circular, too_fast=int((sheet.ms < least).sum()),
        timed=int(np.isfinite(sheet.ms).sum()),
    )  # fmt: skip


def count_repeats(sheet: AnswerSheet) -> tuple[int, int]:
    pairs, of = np.unique(np.column_stack((sheet.a, sheet.b)), axis=0, return_inverse=True)
    times = np.bincount(of.ravel(), minlength=len(pairs))
    wins = np.bincount(of.ravel(), sheet.y, minlength=len(pairs))
    return int((times > 1).sum()), int(((times > 1) & (wins > 0) & (wins < times)).sum())


def count_triples(sheet: AnswerSheet) -> tuple[int, int]:
    """Count the triples of items in which the worker compared all three pairs, and those with circular answers."""
    items, places = np.unique(np.append(sheet.a, sheet.b), return_inverse=True)
    a, b = places.reshape(2, -1)
    score = np.zeros((len(items), len(items)))
    np.add.at(score, (a, b), 2.0 * sheet.y - 1.0)
    np.add.at(score, (b, a), 1.0 - 2.0 * sheet.y)
    above = (score > 0).astype(np.float64)
    compared = above + above.T
    return round(np.trace(compared @ compared @ compared) / 6), round(np.trace(above @ above @ above) / 3)


@dataclass(frozen=True)
class Likeness:
    """Another worker with the same answers to more pairs than the model expects."""

    other: int
    shared: int
    same: int


def find_alike(sheets: dict[int, AnswerSheet], tendency: dict[int, FloatArray], n_items: int) -> dict[int, Likeness]:
    """For each worker, the most similar other worker, if they agree far more often than the model predicts.

    `tendency` of an answer is 2 p - 1, with p the probability of the first item given the worker's other answers.
    """
    workers = list(sheets)
    row = np.repeat(np.arange(len(workers)), [len(sheet.y) for sheet in sheets.values()])
    pair = np.concatenate([sheet.a * n_items + sheet.b for sheet in sheets.values()])
    column = np.unique(pair, return_inverse=True)[1].ravel()
    newest = np.unique((row * (column.max() + 1) + column)[::-1], return_index=True)[1]
    keep = len(row) - 1 - newest
    shape = (len(workers), int(column.max()) + 1)
    answer = np.concatenate([2.0 * sheet.y - 1.0 for sheet in sheets.values()])
    expected = np.concatenate([tendency[worker] for worker in workers])
    X, Q, Q2, one = (
        csr_matrix((values[keep], (row[keep], column[keep])), shape=shape)
        for values in (answer, expected, expected**2, np.ones(len(row)))
    )
    shared = (one @ one.T).toarray()
    agreement = (X @ X.T).toarray()
    z = (agreement - (Q @ Q.T).toarray()) / np.sqrt(np.maximum(shared - (Q2 @ Q2.T).toarray(), 1e-9))
    z[(shared < MIN_SHARED) | np.eye(len(workers), dtype=bool)] = 0.0
    found = {}
    for at in np.flatnonzero(z.max(axis=1, initial=0.0) > ALIKE).tolist():
        other = int(z[at].argmax())
        n = int(shared[at, other])
        found[workers[at]] = Likeness(workers[other], n, round((n + agreement[at, other]) / 2))
    return found
