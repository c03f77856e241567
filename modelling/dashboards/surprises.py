"""Wrong or different? How surprising each answer of a worker is under the consensus and under their own model."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from django.utils.translation import gettext as _

from annotation.models import Item, Judgement, Worker
from modelling.dashboards.answers import Tally, chances, learned_from, surprise
from modelling.dashboards.axes import Floats, axes_of
from modelling.inputs import PREFERENCE
from modelling.models import ModelSnapshot
from modelling.snapshots import Fitted

MOST_ANSWERS = 500  # on a page the newest ones are weighed; a file has all
SURPRISING = 2.0  # bits: an answer with less than one chance in four
COLUMNS = [
    "preferred", "over", "tie", "probability_own", "probability_crowd", "bits_own", "bits_crowd", "response_ms",
    "sequence", "version", "as_of_seq",
]  # fmt: skip


@dataclass(frozen=True)
class Answer:
    """One judgement: `first` was preferred to `second`, unless it is a tie. Probabilities are of preferring `first`."""

    first: Item
    second: Item
    tie: bool
    own: float
    crowd: float
    bits_own: float
    bits_crowd: float
    response_ms: int | None
    sequence: int

    @property
    def verdict(self) -> str:
        """Wrong or different? In words, or nothing where the answer was to be expected."""
        if self.bits_own >= SURPRISING:
            return _("unlike themselves: perhaps a slip")
        return _("differs from the crowd, as this worker does") if self.bits_crowd >= SURPRISING else ""


@dataclass(frozen=True)
class Fit:
    """How the decided answers add up, and how surprising those are that were weighed, on average."""

    answers: int
    decided: int
    agreed: int
    foreseen: int
    bits_own: float
    bits_crowd: float
    weighed: int

    @property
    def capped(self) -> bool:
        """Whether there are older answers that were not weighed."""
        return self.weighed < self.answers

    def counted_in(self, tally: Tally, user: int) -> "Fit":
        """With every answer that the version has learned from, as the table of all workers counts them."""
        columns = (tally.answers, tally.decided, tally.agreed, tally.foreseen)
        answers, decided, agreed, foreseen = (int(column[user]) for column in columns)
        return replace(self, answers=answers, decided=decided, agreed=agreed, foreseen=foreseen)


@dataclass(frozen=True, eq=False)
class Log:
    """The worker's answers that the version has learned from, with how surprising each is; `y` is of the lower item."""

    rows: list[tuple[int, int, int, str, int | None]]  # sequence, item_lo, item_hi, choice, response_ms
    y: Floats
    own: Floats
    crowd: Floats

    @classmethod
    def read(
        cls, snapshot: ModelSnapshot, worker: Worker, fitted: Fitted, user: int, most: int | None = MOST_ANSWERS
    ) -> "Log":
        fields = ("sequence", "item_lo", "item_hi", "choice", "response_ms")
        given = learned_from(snapshot).filter(worker=worker).order_by("-sequence")
        at = fitted.item_at
        rows = [row for row in given.values_list(*fields)[:most] if row[1] in at and row[2] in at]
        a, b = (np.array([at[row[n]] for row in rows], dtype=np.int64) for n in (1, 2))
        expected = chances(fitted, np.full(len(rows), user), a, b)
        y = np.array([PREFERENCE[Judgement.Choice(row[3])] for row in rows], dtype=np.float64)
        return cls(rows, y, expected.own, expected.crowd)

    @property
    def fit(self) -> Fit | None:
        if not self.rows:
            return None
        decided, side = self.y != 0.5, np.sign(self.y - 0.5)
        agreed, foreseen = (int((np.sign(p - 0.5) == side)[decided].sum()) for p in (self.crowd, self.own))
        bits_own, bits_crowd = (float(surprise(p, self.y).mean()) for p in (self.own, self.crowd))
        n = len(self.rows)
        return Fit(n, int(decided.sum()), agreed, foreseen, bits_own, bits_crowd, weighed=n)

    def order(self, name: str) -> list[int]:
        """The places of the answers, those first that are asked for."""
        if name == "newest":
            return list(range(len(self.rows)))
        bits = surprise(self.own if name == "own" else self.crowd, self.y)
        return [int(place) for place in np.argsort(-bits, kind="stable")]

    def answers(self, chosen: list[int]) -> list[Answer]:
        """These answers in full. One statement."""
        ids = {pk for place in chosen for pk in self.rows[place][1:3]}
        items = Item.objects.select_related("project").in_bulk(ids)
        bits_own, bits_crowd = surprise(self.own, self.y), surprise(self.crowd, self.y)
        answers = []
        for place in chosen:
            sequence, lo, hi, choice, ms = self.rows[place]
            turned = choice == Judgement.Choice.HI
            first, second = (hi, lo) if turned else (lo, hi)
            own, crowd = ((1.0 - p[place] if turned else p[place]) for p in (self.own, self.crowd))
            tie, bits = choice == Judgement.Choice.TIE, (float(bits_own[place]), float(bits_crowd[place]))
            answers.append(
                Answer(
                    items[first], items[second], tie, float(own), float(crowd), *bits, response_ms=ms, sequence=sequence
                )
            )
        return answers


def answer_rows(snapshot: ModelSnapshot, worker: Worker) -> Iterator[list[Any]]:
    """The worker's answers with their surprise, the newest first, for a file."""
    fitted = axes_of(snapshot).fitted
    user = fitted.position_of_worker(worker.pk)
    if user is None:
        return
    log = Log.read(snapshot, worker, fitted, user, most=None)
    for each in log.answers(log.order("newest")):
        facts = [each.first.key, each.second.key, int(each.tie), each.own, each.crowd, each.bits_own, each.bits_crowd]
        yield [*facts, each.response_ms or "", each.sequence, snapshot.number, snapshot.last_sequence]
