"""The items that read most like another text: for an item's page and for a text that nobody has judged."""

from collections.abc import Iterable
from dataclasses import dataclass

from modelling.models import ConsensusScore

NEIGHBOURS = 5


@dataclass(frozen=True)
class Neighbour:
    score: ConsensusScore
    similarity: float


def most_alike(scores: Iterable[ConsensusScore], similarity: Iterable[float]) -> list[Neighbour]:
    """The nearest first; what has nothing in common with the text is no neighbour."""
    pairs = zip(scores, similarity, strict=True)
    found = [Neighbour(score, float(alike)) for score, alike in pairs if alike > 0]
    return sorted(found, key=lambda each: (-each.similarity, each.score.rank))[:NEIGHBOURS]
