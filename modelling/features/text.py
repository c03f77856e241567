"""Feature vectors of texts: form, word and character counts, word vectors, sentences. No Django, no network."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from modelling.features.sentences import sentence_vectors
from modelling.features.surface import surface_features
from modelling.features.word_vectors import word_vectors

Floats: TypeAlias = NDArray[np.float64]
State: TypeAlias = dict[str, NDArray[Any]]
Blocks: TypeAlias = dict[str, tuple[int, int]]
Analyser: TypeAlias = Callable[[str], list[str]]

VERSION = 1  # increment it whenever a text would get different features
KNOTS = 512  # quantiles kept of each column
WORD = re.compile(r"\w+|[^\w\s]")
NGRAM_SIZES = (2, 3)


@dataclass(frozen=True)
class RankGaussian:
    """Maps each column to normal quantiles by rank among the training values, so outliers and units have no effect."""

    knots: Floats  # (k, D), every column sorted

    @classmethod
    def fit(cls, X: Floats) -> RankGaussian:
        if len(X) <= KNOTS:
            return cls(np.sort(X, axis=0))
        return cls(np.quantile(X, np.linspace(0.0, 1.0, KNOTS), axis=0, method="nearest"))

    def transform(self, X: Floats) -> Floats:
        """Normal quantiles; 0 in columns that were constant."""
        out = np.zeros(X.shape)
        count = len(self.knots)
        for column in range(X.shape[1]):
            knots = self.knots[:, column]
            if count and knots[0] < knots[-1]:
                sides = [np.searchsorted(knots, X[:, column], side=side) for side in ("left", "right")]
                share = np.clip((sides[0] + sides[1]) / (2.0 * count), 0.5 / count, 1 - 0.5 / count)
                out[:, column] = ndtri(share)
        return out


@dataclass(frozen=True)
class Centring:
    """Shifts and scales a block to mean 0 and mean squared row length 1 over the training rows."""

    centre: Floats
    size: float

    @classmethod
    def fit(cls, X: Floats) -> Centring:
        centre = X.mean(axis=0) if len(X) else np.zeros(X.shape[1])
        size = float(np.sqrt(np.mean(np.sum((X - centre) ** 2, axis=1)))) if len(X) else 0.0
        return cls(centre, size if size > 0 else 1.0)

    def transform(self, X: Floats) -> Floats:
        scaled: Floats = (X - self.centre) / self.size
        return scaled


class TextFeatures:
    """Transforms texts, and the researcher's numeric columns, into rows with named blocks of columns.

    `sentences` adds a block of sentence embeddings, which need a package of their own and are slower.
    """

    def __init__(self, sentences: bool = False) -> None:
        self.sentences = sentences
        self.version = VERSION

    def fit(self, texts: Sequence[str], numeric: ArrayLike | None = None) -> TextFeatures:
        """Learn vocabularies and scales from these texts."""
        self.vocabularies = {name: _vocabulary(texts, *counter) for name, counter in COUNTERS.items()}
        self.n_numeric = 0 if numeric is None else _numbers(numeric, len(texts)).shape[1]
        raw = self._raw(texts, numeric)
        self.ranks = {name: RankGaussian.fit(raw[name]) for name in ("surface", "numeric")}
        self.centrings = {name: Centring.fit(part) for name, part in raw.items() if name not in self.ranks}
        self.blocks = _blocks({name: part.shape[1] for name, part in raw.items()})
        return self

    def transform(self, texts: Sequence[str], numeric: ArrayLike | None = None) -> Floats:
        """One finite row per text; `blocks` names the columns."""
        if not hasattr(self, "blocks"):
            raise ValueError("These features have not been fitted yet.")
        raw = self._raw(texts, numeric)
        return np.hstack([self._scale(name, block) for name, block in raw.items()])

    def _scale(self, name: str, block: Floats) -> Floats:
        return self.ranks[name].transform(block) if name in self.ranks else self.centrings[name].transform(block)

    def _raw(self, texts: Sequence[str], numeric: ArrayLike | None) -> dict[str, Floats]:
        """All unscaled blocks, in the order of the columns."""
        vectors, pieces = word_vectors(texts)
        raw = {"surface": np.hstack([surface_features(texts), pieces])}
        for name, vocabulary in self.vocabularies.items():
            raw[name] = _counts(texts, COUNTERS[name][0], vocabulary)
        raw["vectors"] = vectors
        if self.sentences:
            raw["sentences"] = sentence_vectors(texts)
        raw["numeric"] = self._numeric_block(numeric, len(texts))
        return raw

    def _numeric_block(self, numeric: ArrayLike | None, n_texts: int) -> Floats:
        columns = np.zeros((n_texts, 0)) if numeric is None else _numbers(numeric, n_texts)
        if columns.shape[1] != self.n_numeric:
            raise ValueError(f"The features were fitted with {self.n_numeric} numeric columns, not {columns.shape[1]}.")
        return columns

    def to_state(self) -> State:
        """A flat dict of arrays, from which `from_state` restores the features."""
        state: State = {"version": np.array(self.version), "n_numeric": np.array(self.n_numeric)}
        state["block_names"] = np.array(list(self.blocks))
        state["block_bounds"] = np.array(list(self.blocks.values()), dtype=np.int64)
        for name, vocabulary in self.vocabularies.items():
            state[f"vocabulary.{name}"] = np.array(vocabulary, dtype=np.str_)
        for name, rank in self.ranks.items():
            state[f"knots.{name}"] = rank.knots
        for name, centring in self.centrings.items():
            state[f"centre.{name}"], state[f"size.{name}"] = centring.centre, np.array(centring.size)
        return state

    @classmethod
    def from_state(cls, state: Mapping[str, NDArray[Any]]) -> TextFeatures:
        """Restore the features from a state."""
        if int(state["version"]) != VERSION:
            raise ValueError(f"These features have version {state['version']}; this release reads version {VERSION}.")
        features = cls("sentences" in state["block_names"])
        features.n_numeric = int(state["n_numeric"])
        bounds = [(int(start), int(stop)) for start, stop in state["block_bounds"]]
        features.blocks = dict(zip(map(str, state["block_names"]), bounds, strict=True))
        features.vocabularies = {name: tuple(map(str, state[f"vocabulary.{name}"])) for name in COUNTERS}
        named = {key.split(".", 1)[1]: key for key in state if key.startswith("centre.")}
        features.centrings = {n: Centring(state[k], float(state[f"size.{n}"])) for n, k in named.items()}
        features.ranks = {name: RankGaussian(state[f"knots.{name}"]) for name in ("surface", "numeric")}
        return features


def tokenise_words(text: str) -> list[str]:
    """Words and punctuation marks, in lower case."""
    return WORD.findall(text.lower())


def character_ngrams(text: str) -> list[str]:
    """Character n-grams within words padded by blanks."""
    words = [f" {word} " for word in text.lower().split()]
    return [word[at : at + n] for word in words for n in NGRAM_SIZES for at in range(len(word) - n + 1)]


COUNTERS: Mapping[str, tuple[Analyser, int]] = {"words": (tokenise_words, 400), "letters": (character_ngrams, 300)}


def _vocabulary(texts: Sequence[str], analyse: Analyser, most: int) -> tuple[str, ...]:
    """The most frequent terms that at least two texts use."""
    from sklearn.feature_extraction.text import CountVectorizer  # slow to import, and not needed by transform

    counter = CountVectorizer(analyzer=analyse, max_features=most, min_df=min(2, max(len(texts), 1)))
    try:
        counter.fit(texts)
    except ValueError:  # no term is frequent enough
        return ()
    return tuple(counter.get_feature_names_out())


def _counts(texts: Sequence[str], analyse: Analyser, vocabulary: Sequence[str]) -> Floats:
    """log(1 + count) of each term in the vocabulary."""
    counts, column = np.zeros((len(texts), len(vocabulary))), {term: at for at, term in enumerate(vocabulary)}
    for row, text in enumerate(texts):
        for term, count in Counter(analyse(text)).items():
            if term in column:
                counts[row, column[term]] = count
    return np.log1p(counts)


def _blocks(widths: Mapping[str, int]) -> Blocks:
    """The first column of each block and the column after its last."""
    stops = np.cumsum(list(widths.values()))
    return {name: (int(stop - width), int(stop)) for (name, width), stop in zip(widths.items(), stops, strict=True)}


def _numbers(values: ArrayLike, n_rows: int) -> Floats:
    """Validate a finite matrix with one row per text."""
    matrix = np.asarray(values, dtype=np.float64)
    if matrix.ndim != 2 or len(matrix) != n_rows:
        raise ValueError(
            f"Numeric columns must be a table with {n_rows} rows, one per text; its shape is {matrix.shape}."
        )
    if not np.isfinite(matrix).all():
        raise ValueError("A numeric column has a missing or infinite value.")
    return matrix
