"""The worker page: scores that differ from the consensus, and how surprising each of their judgements is."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from django.core.paginator import Page, Paginator
from django.http import QueryDict
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from annotation.models import Item, Judgement, JudgementNote, Worker
from modelling.dashboards.common.figures import Figure
from modelling.dashboards.common.judgements import (
    WorkerTally,
    predict_pairs,
    surprisal,
    worker_tally,
)
from modelling.dashboards.common.query import search_term
from modelling.dashboards.common.shares import Share
from modelling.dashboards.workers.personal_scores import (
    PairPrediction,
    PersonalScore,
    PersonalScores,
    contributions_figure,
    scores_figure,
)
from modelling.models import ModelSnapshot
from modelling.training.components.axes import Floats, load_component_axes
from modelling.training.inputs import PREFERENCE
from modelling.training.snapshots import FittedModel
from modelling.training.votes import training_judgements

SHOWN_SCORES = 25  # a standard deviation costs far more than a mean
SHOWN_BARS = 12  # in the figure of contributions
JUDGEMENTS_PER_PAGE = 25
MAX_KEYS = 2000  # suggested in the two fields of a pair
MAX_JUDGEMENTS = 500  # evaluated on the page, the newest ones; the CSV file has all
SURPRISING = 2.0  # bits: predicted with a probability below 1/4
COLUMNS = [
    "preferred", "over", "tie", "probability_own", "probability_crowd", "bits_own", "bits_crowd", "response_ms",
    "sequence", "version", "as_of_seq", "probability_random_worker", "bits_random_worker", "note", "arm",
]  # fmt: skip
ORDERS = {
    "own": gettext_lazy("most surprising for this worker"),
    "crowd": gettext_lazy("most surprising for the crowd"),
    "newest": gettext_lazy("newest"),
}


@dataclass(frozen=True)
class WorkerQuery:
    """Query parameters of the page: the keys of a pair, and the order of the judgements."""

    a: str = ""
    b: str = ""
    order: str = "own"
    page: str = ""

    @classmethod
    def parse(cls, query: QueryDict) -> "WorkerQuery":
        order = query.get("sort", "")
        a, b = (search_term(query, name) for name in ("a", "b"))
        return cls(a, b, order if order in ORDERS else "own", query.get("page", ""))


@dataclass(frozen=True)
class WorkerJudgement:
    """One judgement: `first` was preferred to `second`, unless it is a tie. Probabilities are of preferring `first`."""

    first: Item
    second: Item
    tie: bool
    own: float
    crowd: float
    typical: float
    bits_own: float
    bits_crowd: float
    bits_typical: float
    response_ms: int | None
    sequence: int
    note: str = ""  # the reason that the worker wrote

    @property
    def assessment(self) -> str:
        """Whether a surprising judgement looks like a mistake or a different opinion; empty if it is as predicted."""
        if self.bits_own >= SURPRISING:
            return _("unusual for this worker: perhaps a mistake")
        return _("a different opinion: usual for this worker") if self.bits_crowd >= SURPRISING else ""


@dataclass(frozen=True)
class AnswerSummary:
    """Counts of a worker's judgements, and the mean surprisal in bits of the `evaluated` ones."""

    judgements: int
    decided: int
    agreed: int
    explained: int
    bits_own: float
    bits_crowd: float
    evaluated: int

    @property
    def agreement(self) -> Share:
        return Share(self.agreed, self.decided)

    @property
    def explained_share(self) -> Share:
        return Share(self.explained, self.decided)

    @property
    def is_capped(self) -> bool:
        """Whether older judgements were not evaluated."""
        return self.evaluated < self.judgements

    def with_tally(self, tally: WorkerTally, user: int) -> "AnswerSummary":
        """Replace the counts by those of all judgements in the version, as in the table of all workers."""
        columns = (tally.judgements, tally.decided, tally.agreed, tally.explained)
        judgements, decided, agreed, explained = (int(column[user]) for column in columns)
        return replace(self, judgements=judgements, decided=decided, agreed=agreed, explained=explained)


@dataclass(frozen=True, eq=False)
class WorkerAnswers:
    """A worker's judgements in a version with their predicted probabilities; `y` refers to the lower item."""

    worker: Worker
    rows: list[tuple[int, int, int, str, int | None]]  # sequence, item_lo, item_hi, choice, response_ms
    y: Floats
    own: Floats
    crowd: Floats
    typical: Floats

    @classmethod
    def load(
        cls, snapshot: ModelSnapshot, worker: Worker, fitted: FittedModel, user: int, most: int | None = MAX_JUDGEMENTS
    ) -> "WorkerAnswers":
        fields = ("sequence", "item_lo", "item_hi", "choice", "response_ms")
        judgements = training_judgements(snapshot).filter(worker=worker).order_by("-sequence")
        at = fitted.item_index
        rows = [row for row in judgements.values_list(*fields)[:most] if row[1] in at and row[2] in at]
        a, b = (np.array([at[row[n]] for row in rows], dtype=np.int64) for n in (1, 2))
        predicted = predict_pairs(fitted, np.full(len(rows), user), a, b)
        y = np.array([PREFERENCE[Judgement.Choice(row[3])] for row in rows], dtype=np.float64)
        return cls(worker, rows, y, predicted.own, predicted.crowd, predicted.typical)

    @property
    def item_ids(self) -> set[int]:
        return {pk for row in self.rows for pk in row[1:3]}

    @property
    def summary(self) -> AnswerSummary | None:
        if not self.rows:
            return None
        decided, side = self.y != 0.5, np.sign(self.y - 0.5)
        agreed, consistent = (int((np.sign(p - 0.5) == side)[decided].sum()) for p in (self.crowd, self.own))
        bits_own, bits_crowd = (float(surprisal(p, self.y).mean()) for p in (self.own, self.crowd))
        n = len(self.rows)
        return AnswerSummary(n, int(decided.sum()), agreed, consistent, bits_own, bits_crowd, evaluated=n)

    def ordered(self, name: str) -> list[int]:
        """Indices of the judgements in one of the ORDERS."""
        if name == "newest":
            return list(range(len(self.rows)))
        bits = surprisal(self.own if name == "own" else self.crowd, self.y)
        return [int(index) for index in np.argsort(-bits, kind="stable")]

    def details(self, indices: list[int]) -> list[WorkerJudgement]:
        """These judgements with their items, in one query."""
        ids = {pk for index in indices for pk in self.rows[index][1:3]}
        items = Item.objects.select_related("project").in_bulk(ids)
        sequences = [self.rows[index][0] for index in indices]
        found = JudgementNote.objects.filter(judgement__worker=self.worker, judgement__sequence__in=sequences)
        notes = dict(found.values_list("judgement__sequence", "text"))
        each_p = (self.own, self.crowd, self.typical)
        bits = [surprisal(p, self.y) for p in each_p]
        judgements = []
        for index in indices:
            sequence, lo, hi, choice, ms = self.rows[index]
            flipped = choice == Judgement.Choice.HI
            first, second = (hi, lo) if flipped else (lo, hi)
            own, crowd, typical = (float(1.0 - p[index] if flipped else p[index]) for p in each_p)
            bits_own, bits_crowd, bits_typical = (float(each[index]) for each in bits)
            judgements.append(
                WorkerJudgement(
                    first=items[first],
                    second=items[second],
                    tie=choice == Judgement.Choice.TIE,
                    own=own,
                    crowd=crowd,
                    typical=typical,
                    bits_own=bits_own,
                    bits_crowd=bits_crowd,
                    bits_typical=bits_typical,
                    response_ms=ms,
                    sequence=sequence,
                    note=notes.get(sequence, ""),
                )
            )
        return judgements


@dataclass(frozen=True)
class WorkerPage:
    query: WorkerQuery
    known: bool
    scores: list[PersonalScore]
    n_items: int
    keys: list[str]
    pair: PairPrediction | None
    summary: AnswerSummary | None
    judgements: list[WorkerJudgement]
    page: Page | None
    figures: list[Figure]

    @property
    def has_notes(self) -> bool:
        return any(judgement.note for judgement in self.judgements)

    @property
    def orders(self) -> list[tuple[str, Any]]:
        return list(ORDERS.items())


def worker_page(snapshot: ModelSnapshot, worker: Worker, query: WorkerQuery) -> WorkerPage:
    """The clear differences from the consensus, a pair if given, and the judgements in the order of the query."""
    axes = load_component_axes(snapshot)
    user = axes.fitted.worker_index.get(worker.pk)
    if user is None:
        return WorkerPage(query, False, [], 0, [], None, None, [], None, [])
    scores = PersonalScores(snapshot, axes, user)
    shown = [each for each in scores.details(scores.by_difference[:SHOWN_SCORES]) if each.is_clear]
    answers = WorkerAnswers.load(snapshot, worker, axes.fitted, user)
    page = Paginator(answers.ordered(query.order), JUDGEMENTS_PER_PAGE).get_page(query.page)
    return WorkerPage(
        query=query,
        known=True,
        scores=shown,
        n_items=len(scores.ranked),
        keys=[each.key for each in scores.ranked[:MAX_KEYS]],
        pair=scores.predict_pair(query.a, query.b),
        summary=answers.summary.with_tally(worker_tally(snapshot), user) if answers.summary else None,
        judgements=answers.details(list(page)),
        page=page,
        figures=[scores_figure(scores, worker.project), contributions_figure(shown[:SHOWN_BARS])] if shown else [],
    )


def judgement_rows(snapshot: ModelSnapshot, worker: Worker) -> Iterator[list[Any]]:
    """The worker's judgements with their surprisal, newest first, for a file with COLUMNS."""
    fitted = load_component_axes(snapshot).fitted
    user = fitted.worker_index.get(worker.pk)
    if user is None:
        return
    answers = WorkerAnswers.load(snapshot, worker, fitted, user, most=None)
    for each in answers.details(answers.ordered("newest")):
        yield [
            each.first.key, each.second.key, int(each.tie), each.own, each.typical, each.bits_own, each.bits_typical,
            each.response_ms or "", each.sequence, snapshot.number, snapshot.last_sequence, each.crowd, each.bits_crowd,
            each.note, worker.arm.name if worker.arm else "",
        ]  # fmt: skip
