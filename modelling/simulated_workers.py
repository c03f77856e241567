"""Workers who are nobody: they like words, differ in taste, err, call it a tie, or do not care. They say what they are.

A worker sees what a browser sees, two texts. Each word is liked a little, by everybody alike (quality) and along a few
tastes that workers have to different degrees; a text is liked as its words are. So texts with the same words are liked
alike, whoever reads them and in whatever study, and a model that reads texts has something to find.
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

from annotation.doors import Door
from annotation.visitor import Visitor

Floats = NDArray[np.float64]
Tell = Callable[..., None]

WORD = re.compile(r"\w+")
ATTENTIVE, RANDOM, LEFT = "attentive", "random", "always left"
UTILITY_VARIANCE = 2.0  # of one text for one worker: quality, and all tastes together as much again
DONE, NO_PAIRS, NO_TIME, REFUSED = "done", "no pairs are left", "the time is up", "the server refuses"
PATIENCE = 20.0  # seconds with a server that does not answer


@dataclass(frozen=True)
class Temper:
    """What a crowd is like. Noise is the sd of what is felt beside a difference of utilities that has sd 2."""

    seed: int = 0
    tastes: int = 3
    noise: float = 1.0
    ties: float = 0.05  # about this share of the answers of those who care
    careless: float = 0.0  # this share of the workers: every other one clicks at random, the others always left

    @property
    def tie_margin(self) -> float:
        return float(np.sqrt(2.0 * UTILITY_VARIANCE + self.noise**2) * ndtri((1.0 + self.ties) / 2.0))


class Persona:
    """One worker's taste and temper: the same for the same seed and number."""

    def __init__(self, temper: Temper, number: int, kind: str) -> None:
        self.temper, self.kind = temper, kind
        self.rng = np.random.default_rng([temper.seed, number])
        own = self.rng.standard_normal(temper.tastes) / np.sqrt(max(temper.tastes, 1))
        self.weights = np.append(1.0, own)  # quality counts fully for everybody

    def utility(self, text: str) -> float:
        return float(self.weights @ position_of(text, self.temper.seed, self.temper.tastes))

    def choose(self, left: str, right: str, *, tie_offered: bool) -> str:
        if self.kind == LEFT:
            return "left"
        if self.kind == RANDOM:
            return str(self.rng.choice(["left", "right"]))
        felt = self.utility(left) - self.utility(right) + self.temper.noise * self.rng.standard_normal()
        if tie_offered and abs(felt) <= self.temper.tie_margin:
            return "tie"
        return "left" if felt > 0 else "right"


@lru_cache(maxsize=100_000)
def position_of(text: str, seed: int, tastes: int) -> Floats:
    """Quality and leaning on each taste, (tastes + 1,): each standard normal over texts."""
    words = sorted(set(WORD.findall(text.casefold()))) or [text]
    return np.asarray(sum(_likings(word, seed, tastes) for word in words) / np.sqrt(len(words)))


@lru_cache(maxsize=100_000)
def _likings(word: str, seed: int, tastes: int) -> Floats:
    number = int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "big")
    return np.random.default_rng([seed, number]).standard_normal(tastes + 1)


def personas(temper: Temper, workers: int) -> list[Persona]:
    """The crowd; who is careless is drawn as well."""
    n_careless = round(temper.careless * workers)
    kinds = [(RANDOM, LEFT)[n % 2] for n in range(n_careless)] + [ATTENTIVE] * (workers - n_careless)
    mixed = np.random.default_rng([temper.seed, workers]).permutation(workers)
    return [Persona(temper, number, kinds[place]) for number, place in enumerate(mixed)]


@dataclass(frozen=True)
class Entry:
    """One line of the ledger: what was sent, and what the server said to it."""

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
class Sitting:
    """A crowd at work: one answer after the other, the workers by turns, within a number and a time."""

    crowd: list[Persona]
    slug: str
    door: Callable[[], Door]
    ledger: list[Entry] = field(default_factory=list)
    clock: Callable[[], float] = time.monotonic
    pause: Callable[[float], object] = lambda seconds: threading.Event().wait(seconds)

    def run(self, judgements: int, *, rate: float, seconds: float, tell: Tell = lambda *what: None) -> str:
        """Why it ended. At most `rate` answers a second; 0 is as fast as they are acknowledged."""
        began, given = self.clock(), 0
        for number, visitor, persona in self._turns():
            if self.clock() - began > seconds:
                return NO_TIME
            tell("judging", given / judgements, f", {given:,} of {judgements:,}")
            entry = self._answer(number, visitor, persona)
            self.ledger += [entry]
            given += entry.stored
            if given == judgements:
                return DONE
            if len(self.ledger) >= 2 * judgements:
                return REFUSED
            if rate and (early := began + len(self.ledger) / rate - self.clock()) > 0:
                self.pause(min(early, seconds))
        return NO_PAIRS

    def _turns(self) -> Iterator[tuple[int, Visitor, Persona]]:
        """Each worker who still has a pair, again and again. Who has none any more goes home."""
        here = {
            number: Visitor(self.door(), self.slug, patience=PATIENCE, simulated=True)
            for number in range(len(self.crowd))
        }
        try:
            while here:
                for number, visitor in list(here.items()):
                    if not visitor.token:
                        visitor.join()
                    if visitor.next_pair() is None:
                        here.pop(number).close()
                        continue
                    yield number, visitor, self.crowd[number]
        finally:
            for visitor in here.values():
                visitor.close()

    def _answer(self, number: int, visitor: Visitor, persona: Persona) -> Entry:
        pair, began = visitor.pairs[0], self.clock()
        texts = pair["left"]["text"], pair["right"]["text"]
        choice = persona.choose(*texts, tie_offered=visitor.tie_offered)
        answer: dict[str, Any] = {"uuid": str(uuid.uuid4()), "assignment": pair["assignment"], "choice": choice}
        answer["response_ms"] = int(1000 * (self.clock() - began))
        reply = visitor.answer(answer)
        return Entry(answer["uuid"], number, persona.kind, answer["assignment"], choice, reply.status)

    def counts(self) -> dict[str, int]:
        """How often each choice was stored."""
        return dict(Counter(entry.choice for entry in self.ledger if entry.stored))
