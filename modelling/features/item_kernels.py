"""Kernels over text features: the prior similarity of items."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from modelling.crowdgppl import Linear, SquaredExponential, WeightedSum

SENTENCES_WEIGHT = 0.5


def item_kernels(blocks: Mapping[str, tuple[int, int]]) -> dict[str, WeightedSum]:
    """Candidate kernels by name, simplest first; smooth kernels generalise to unseen topics."""
    counts = {"words": 0.2, "letters": 0.1}
    recipes: dict[str, tuple[float, dict[str, float]]] = {
        "surface": (4.0, {}),
        "surface, words": (4.0, counts),
        "surface, words, vectors": (4.0, {**counts, "vectors": 0.2}),
        "surface, words, many vectors": (4.0, {"words": 0.5, "letters": 0.1, "vectors": 0.5}),
        "surface, words, vectors, sentences": (4.0, {**counts, "vectors": 0.2, "sentences": SENTENCES_WEIGHT}),
        "near surface, words, vectors": (1.0, {**counts, "vectors": 0.2}),
    }
    return {name: _mixture(blocks, length_scale, weights) for name, (length_scale, weights) in recipes.items()}


def default_item_kernel(blocks: Mapping[str, tuple[int, int]]) -> WeightedSum:
    return item_kernels(blocks)["surface, words, vectors"]


def _mixture(blocks: Mapping[str, tuple[int, int]], length_scale: float, weights: Mapping[str, float]) -> WeightedSum:
    """Linear plus squared exponential over surface features, plus linear over the other blocks that have columns."""
    surface = blocks["surface"]
    smooth = SquaredExponential(scale=length_scale, columns=surface)
    terms: list[tuple[float, Any]] = [(0.5, Linear(columns=surface)), (0.5, smooth)]
    for name, weight in {**weights, "numeric": 0.5}.items():
        start, stop = blocks.get(name, (0, 0))
        if stop > start:
            terms.append((weight, Linear(columns=(start, stop))))
    return WeightedSum(tuple(terms))
