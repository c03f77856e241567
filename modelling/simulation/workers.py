"""Simulated workers, marked as such, who differ in taste, noise, ties and carelessness.

A simulated worker sees what a browser shows: two texts. Every word has a quality that counts for everyone, and a
position on a few taste dimensions that workers weigh differently; the utility of a text is the sum over its words. So
similar texts have similar utilities for every worker and in every study, and a model with text features can learn them.
"""

from __future__ import annotations

import hashlib
import re
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from modelling.simulation.http_client import Client
from modelling.simulation.http_worker import HttpWorker

Floats = NDArray[np.float64]
ReportProgress = Callable[..., None]

WORD = re.compile(r"\w+")
ATTENTIVE, RANDOM, LEFT = "attentive", "random", "always left"
UTILITY_VARIANCE = 2.0  # of a text's utility for one worker: 1 for quality, 1 for all tastes together
DONE, NO_PAIRS, NO_TIME, REFUSED = "done", "no pairs are left", "the time is up", "the server refuses"
PATIENCE = 20.0  # seconds to wait for a server that does not respond


@dataclass(frozen=True)
class CrowdParameters:
    """Parameters of a simulated crowd. The noise is added to utility differences, whose standard deviation is 2."""

    seed: int = 0
    tastes: int = 3
    noise: float = 1.0
    ties: float = 0.05  # approximate share of the answers of attentive workers
    careless: float = 0.0  # share of workers; half of them answer at random, half always left

    @property
    def tie_margin(self) -> float:
        return float(np.sqrt(2.0 * UTILITY_VARIANCE + self.noise**2) * ndtri((1.0 + self.ties) / 2.0))


class SimulatedWorker:
    """One worker's taste and behaviour, determined by the seed and the worker's number."""

    def __init__(self, parameters: CrowdParameters, number: int, kind: str) -> None:
        self.parameters, self.kind = parameters, kind
        self.rng = np.random.default_rng([parameters.seed, number])
        tastes = self.rng.standard_normal(parameters.tastes) / np.sqrt(max(parameters.tastes, 1))
        self.weights = np.append(1.0, tastes)  # quality has weight 1 for everyone

    def utility(self, text: str) -> float:
        return float(self.weights @ text_position(text, self.parameters.seed, self.parameters.tastes))

    def choose(self, left: str, right: str, *, tie_offered: bool) -> str:
        if self.kind == LEFT:
            return "left"
        if self.kind == RANDOM:
            return str(self.rng.choice(["left", "right"]))
        difference = self.utility(left) - self.utility(right) + self.parameters.noise * self.rng.standard_normal()
        if tie_offered and abs(difference) <= self.parameters.tie_margin:
            return "tie"
        return "left" if difference > 0 else "right"


@lru_cache(maxsize=100_000)
def text_position(text: str, seed: int, tastes: int) -> Floats:
    """Quality and position on each taste dimension, (tastes + 1,); each is standard normal over texts."""
    words = sorted(set(WORD.findall(text.casefold()))) or [text]
    return np.asarray(sum(_word_position(word, seed, tastes) for word in words) / np.sqrt(len(words)))


@lru_cache(maxsize=100_000)
def _word_position(word: str, seed: int, tastes: int) -> Floats:
    number = int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "big")
    return np.random.default_rng([seed, number]).standard_normal(tastes + 1)


def build_crowd(parameters: CrowdParameters, workers: int) -> list[SimulatedWorker]:
    """The workers of a crowd; the careless ones are chosen at random."""
    n_careless = round(parameters.careless * workers)
    kinds = [(RANDOM, LEFT)[n % 2] for n in range(n_careless)] + [ATTENTIVE] * (workers - n_careless)
    order = np.random.default_rng([parameters.seed, workers]).permutation(workers)
    return [SimulatedWorker(parameters, number, kinds[position]) for number, position in enumerate(order)]


@dataclass(frozen=True)
class SentAnswer:
    """An answer and its response status: one line of the ledger file."""

    uuid: str
    worker: int
    kind: str
    assignment: str
    choice: str
    status: int

    @property
    def stored(self) -> bool:
        return self.status < 300


@dataclass
class CrowdRun:
    """A crowd judging a study: the workers take turns, one answer at a time."""

    crowd: list[SimulatedWorker]
    slug: str
    open_client: Callable[[], Client]
    sent: list[SentAnswer] = field(default_factory=list)
    clock: Callable[[], float] = time.monotonic
    pause: Callable[[float], object] = lambda seconds: threading.Event().wait(seconds)

    def run(self, judgements: int, *, rate: float, seconds: float, report: ReportProgress = lambda *what: None) -> str:
        """Judge at most `rate` pairs a second (0: no limit); return why the run ended."""
        began, stored = self.clock(), 0
        for number, http_worker in self._take_turns():
            if self.clock() - began > seconds:
                return NO_TIME
            report("judging", stored / judgements, f", {stored:,} of {judgements:,}")
            answer = self._answer(number, http_worker)
            self.sent += [answer]
            stored += answer.stored
            if stored == judgements:
                return DONE
            if len(self.sent) >= 2 * judgements:
                return REFUSED
            if rate and (early := began + len(self.sent) / rate - self.clock()) > 0:
                self.pause(min(early, seconds))
        return NO_PAIRS

    def _take_turns(self) -> Iterator[tuple[int, HttpWorker]]:
        """Yield each worker in turn, joined and with a pair to judge, until no worker has a pair left."""
        active = {
            number: HttpWorker(self.open_client(), self.slug, patience=PATIENCE, simulated=True)
            for number in range(len(self.crowd))
        }
        try:
            while active:
                for number, http_worker in list(active.items()):
                    if not http_worker.token:
                        http_worker.join()
                    if http_worker.next_pair() is None:
                        active.pop(number).close()
                        continue
                    yield number, http_worker
        finally:
            for http_worker in active.values():
                http_worker.close()

    def _answer(self, number: int, http_worker: HttpWorker) -> SentAnswer:
        pair, began, worker = http_worker.pairs[0], self.clock(), self.crowd[number]
        texts = pair["left"]["text"], pair["right"]["text"]
        choice = worker.choose(*texts, tie_offered=http_worker.tie_offered)
        answer: dict[str, Any] = {"uuid": str(uuid.uuid4()), "assignment": pair["assignment"], "choice": choice}
        answer["response_ms"] = int(1000 * (self.clock() - began))
        response = http_worker.answer(answer)
        return SentAnswer(answer["uuid"], number, worker.kind, answer["assignment"], choice, response.status)

    def counts(self) -> dict[str, int]:
        """How often each choice was stored."""
        return dict(Counter(answer.choice for answer in self.sent if answer.stored))
