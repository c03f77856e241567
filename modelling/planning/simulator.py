"""Simulated studies with a known truth: a crowd judges pairs that the product's own policy chooses, and the model
learns. Used by the study designer and by benchmarks. Numpy only.

A judgement is the sign of a difference of utilities plus unit normal noise, so the spread of the consensus and of
tastes is in units of that noise.
"""

from __future__ import annotations

import warnings
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from modelling.crowdgppl import CrowdGPPL, PairwiseLabels
from modelling.planning.policy import PairQuestion, Purpose, suggest_pairs
from modelling.planning.posterior import Floats, Ints, OrderPosterior

RANDOM = "random"
PAIRS_AHEAD = 5
AT_ONCE = 8  # workers who judge at the same time
TRIES = 60  # random pairs drawn to find one that a worker may get
UPDATE_GROWTH = 0.05  # an update waits until labels have grown by this share, so that long studies have fewer updates
MAX_SUGGESTIONS = 60


@dataclass(frozen=True)
class StudyDesign:
    """Size and policy of a study, and what its crowd is assumed to be like."""

    n_items: int = 50
    n_workers: int = 25
    judgements_each: int = 40
    spread: float = 1.5  # standard deviation of the consensus scores
    disagreement: float = 0.0  # standard deviation of a worker's own taste for an item
    opinion_groups: int = 0  # groups of workers with the same taste; 0: two taste dimensions with individual weights
    careless: float = 0.0  # share of workers who answer at random
    policy: str = "order"  # a purpose of suggestions, or "random"
    top_k: int = 10
    random_share: float = 0.2
    redundancy: int = 3
    update_batch: int = 10

    @property
    def n_judgements(self) -> int:
        return self.n_workers * self.judgements_each


@dataclass(frozen=True, eq=False)
class Crowd:
    """True scores: consensus t (N,), utilities F (N, U), and which workers answer at random."""

    t: Floats
    F: Floats
    careless: Ints

    def answer(self, worker: int, a: int, b: int, rng: np.random.Generator) -> float:
        if worker in self.careless:
            return float(rng.random() < 0.5)
        return float(self.F[a, worker] - self.F[b, worker] + rng.standard_normal() > 0.0)


def draw_crowd(design: StudyDesign, rng: np.random.Generator) -> Crowd:
    """Sample scores from normal distributions; for every item, the tastes of all opinion groups add up to zero."""
    N, U = design.n_items, design.n_workers
    t = design.spread * rng.standard_normal(N)
    if design.opinion_groups > 1:
        of_group = rng.standard_normal((N, design.opinion_groups))
        of_group -= of_group.mean(axis=1, keepdims=True)
        of_group *= design.disagreement / np.sqrt(1.0 - 1.0 / design.opinion_groups)
        taste = of_group[:, np.arange(U) % design.opinion_groups]
    else:
        taste = design.disagreement * (rng.standard_normal((N, 2)) @ rng.standard_normal((2, U))) / np.sqrt(2.0)
    careless = rng.permutation(U)[: round(design.careless * U)]
    return Crowd(t - t.mean(), t[:, None] + taste, careless)


@dataclass(eq=False)
class SimulatedStudy:
    """A study that runs until every worker has finished, with the labels so far and the model of the last update."""

    design: StudyDesign
    crowd: Crowd
    rng: np.random.Generator
    model: CrowdGPPL | None = None
    rows: list[tuple[int, int, int, float]] = field(default_factory=list)  # worker, a, b, y
    suggested: list[bool] = field(default_factory=list)  # whether each label's pair was suggested
    _queue: deque[tuple[int, int]] = field(default_factory=deque)
    _loads: Floats = field(init=False)
    _slots: Counter[tuple[int, int]] = field(default_factory=Counter)
    _had: dict[int, set[tuple[int, int]]] = field(default_factory=dict)
    _learned: int = 0
    _has_suggestions: bool = False

    def __post_init__(self) -> None:
        self._loads = np.zeros(self.design.n_items)

    def run(self) -> Iterator[int]:
        """Run the study; yield the number of labels after every update of the model."""
        waiting = deque(range(self.design.n_workers))
        active: dict[int, deque[tuple[int, int, bool]]] = {}
        done: Counter[int] = Counter()
        while waiting or active:
            while waiting and len(active) < AT_ONCE:
                active[waiting.popleft()] = deque()
            for worker in list(active):
                pairs = active[worker]
                if not pairs:
                    pairs.extend(self._lease(worker, min(PAIRS_AHEAD, self.design.judgements_each - done[worker])))
                if not pairs:
                    del active[worker]
                    continue
                a, b, suggested = pairs.popleft()
                self.rows.append((worker, a, b, self.crowd.answer(worker, a, b, self.rng)))
                self.suggested.append(suggested)
                done[worker] += 1
                if done[worker] == self.design.judgements_each:
                    del active[worker]
                if self._is_due:
                    self._update()
                    yield len(self.rows)
        if len(self.rows) > self._learned:
            self._update()
            yield len(self.rows)

    @property
    def labels(self) -> PairwiseLabels:
        return self._labels(0)

    def posterior(self) -> OrderPosterior:
        """The posterior of the consensus after the last update."""
        assert self.model is not None  # noqa: S101
        return OrderPosterior.given_scale(*self.model.predict_consensus(return_cov=True))

    def _labels(self, start: int) -> PairwiseLabels:
        u, a, b, y = (np.array(column) for column in zip(*self.rows[start:], strict=True))
        return PairwiseLabels(u, a, b, y)

    @property
    def _is_due(self) -> bool:
        return len(self.rows) - self._learned >= max(self.design.update_batch, UPDATE_GROWTH * self._learned)

    def _update(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if self.model is None or self.model.needs_refit_:
                sizes = {"n_items": self.design.n_items, "n_users": self.design.n_workers}
                self.model = CrowdGPPL().fit(self.labels, **sizes)
            else:
                self.model.partial_fit(self._labels(self._learned))
        self._learned = len(self.rows)
        if self.design.policy != RANDOM:
            self._suggest()

    def _suggest(self) -> None:
        assert self.model is not None  # noqa: S101
        full = np.zeros((self.design.n_items,) * 2, dtype=bool)
        for (a, b), count in self._slots.items():
            full[a, b] = full[b, a] = count >= self.design.redundancy
        purpose: Purpose = self.design.policy  # type: ignore[assignment]
        question = PairQuestion(
            purpose,
            self.design.top_k,
            judgements=self._loads.astype(np.int64),
            taste=self.model.item_components_.T,
            lapse=self.model.hyperparameters_["lapse"],
            blocked=full,
        )
        found = suggest_pairs(self.posterior(), question, MAX_SUGGESTIONS, self.rng)
        self._has_suggestions = True
        self._queue = deque(zip(found.a.tolist(), found.b.tolist(), strict=True))

    def _lease(self, worker: int, count: int) -> list[tuple[int, int, bool]]:
        """A worker's next pairs: suggestions, except for the random share; no item is in two consecutive pairs."""
        leased: list[tuple[int, int, bool]] = []
        for _ in range(count):
            recent = {item for pair in leased[-1:] for item in pair[:2]}
            random = self.design.policy == RANDOM or self.rng.random() < self.design.random_share
            pair = None if random else self._from_queue(worker, recent)
            suggested = pair is not None
            pair = pair or self._at_random(worker, recent)
            if pair is None:
                break
            self._loads[list(pair)] += 1
            self._slots[pair] += 1
            self._had.setdefault(worker, set()).add(pair)
            leased.append((*pair, suggested))
        return leased

    def _from_queue(self, worker: int, recent: set[int]) -> tuple[int, int] | None:
        for pair in self._queue:
            if self._is_free(worker, pair, recent):
                self._queue.remove(pair)
                return pair
        return None

    def _at_random(self, worker: int, recent: set[int]) -> tuple[int, int] | None:
        """A pair of the least judged items until there are suggestions, then any pair, as in the product."""
        for attempt in range(TRIES):
            if self._has_suggestions or attempt > TRIES // 2:
                a, b = self.rng.choice(self.design.n_items, 2, replace=False)
            else:
                order = self.rng.permutation(self.design.n_items)
                a, b = order[np.argsort(self._loads[order], kind="stable")[:2]]
            pair = (int(min(a, b)), int(max(a, b)))
            if self._is_free(worker, pair, recent):
                return pair
        return None

    def _is_free(self, worker: int, pair: tuple[int, int], recent: set[int]) -> bool:
        free = self._slots[pair] < self.design.redundancy and pair not in self._had.get(worker, set())
        return free and not recent.intersection(pair)


def simulate(design: StudyDesign, seed: int) -> SimulatedStudy:
    """Return a study that has not run yet; the same seed and crowd parameters give the same crowd."""
    crowd = draw_crowd(design, np.random.default_rng([seed, design.n_items, design.n_workers]))
    return SimulatedStudy(design, crowd, np.random.default_rng([seed, 1]))
