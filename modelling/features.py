"""Texts and questionnaire answers become vectors: the same for the app and the benchmarks. No Django, no network."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from modelling.crowdgppl import Linear, SquaredExponential, WeightedSum
from modelling.surface_features import surface_features
from modelling.word_vectors import word_vectors

Floats: TypeAlias = NDArray[np.float64]
State: TypeAlias = dict[str, NDArray[Any]]
Blocks: TypeAlias = dict[str, tuple[int, int]]
Embed: TypeAlias = Callable[[Sequence[str]], Floats]
TermsOf: TypeAlias = Callable[[str], list[str]]

VERSION = 1  # raise it whenever a text would get other numbers
KNOTS = 512  # sorted training values kept of each column
WORD = re.compile(r"\w+|[^\w\s]")
LETTERS = (2, 3)  # in a row
MOST_CATEGORIES = 20  # of one question; rarer answers count as none
NUMBER = re.compile(r"[+-]?\d{1,12}(\.\d{1,12})?")  # an answer in words that is a number
FURTHEST = 5.0  # standard deviations: beyond this a number says no more


@dataclass(frozen=True)
class RankGaussian:
    """Each column by its rank among the training values, as a normal quantile: no outlier, no unit, never infinite."""

    knots: Floats  # (k, D), every column sorted

    @classmethod
    def fit(cls, X: Floats) -> RankGaussian:
        """The ranks of these rows."""
        if len(X) <= KNOTS:
            return cls(np.sort(X, axis=0))
        return cls(np.quantile(X, np.linspace(0.0, 1.0, KNOTS), axis=0, method="nearest"))

    def transform(self, X: Floats) -> Floats:
        """Normal quantiles; 0 in a column that was constant."""
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
    """A block moved to mean 0 and mean squared length 1 over the training rows."""

    centre: Floats
    size: float

    @classmethod
    def fit(cls, X: Floats) -> Centring:
        """The centre and size of these rows."""
        centre = X.mean(axis=0) if len(X) else np.zeros(X.shape[1])
        size = float(np.sqrt(np.mean(np.sum((X - centre) ** 2, axis=1)))) if len(X) else 0.0
        return cls(centre, size if size > 0 else 1.0)

    def transform(self, X: Floats) -> Floats:
        moved: Floats = (X - self.centre) / self.size
        return moved


class TextFeatures:
    """Texts, and the researcher's own numbers beside them, as rows of X in named blocks of columns."""

    def __init__(self, embed: Embed | None = None) -> None:
        self.embed = embed
        self.version = VERSION

    def fit(self, texts: Sequence[str], numeric: ArrayLike | None = None) -> TextFeatures:
        """Vocabulary, ranks and centres are those of these texts."""
        self.vocabularies = {name: _vocabulary(texts, *counter) for name, counter in COUNTERS.items()}
        self.n_numeric = 0 if numeric is None else _numbers(numeric, len(texts)).shape[1]
        raw = self._raw(texts, numeric)
        self.ranks = {name: RankGaussian.fit(raw[name]) for name in ("surface", "numeric")}
        self.centrings = {name: Centring.fit(part) for name, part in raw.items() if name not in self.ranks}
        self.blocks = _blocks({name: part.shape[1] for name, part in raw.items()})
        return self

    def transform(self, texts: Sequence[str], numeric: ArrayLike | None = None) -> Floats:
        """One finite row for each text, columns as in `blocks`."""
        if not hasattr(self, "blocks"):
            raise ValueError("These features have not been fitted yet.")
        raw = self._raw(texts, numeric)
        parts = [self._scaled(name, part) for name, part in raw.items()]
        return np.hstack(parts)

    def _scaled(self, name: str, part: Floats) -> Floats:
        return self.ranks[name].transform(part) if name in self.ranks else self.centrings[name].transform(part)

    def _raw(self, texts: Sequence[str], numeric: ArrayLike | None) -> dict[str, Floats]:
        """Every block before scaling, in the order of the columns."""
        vectors, pieces = word_vectors(texts)
        raw = {"surface": np.hstack([surface_features(texts), pieces])}
        for name, vocabulary in self.vocabularies.items():
            raw[name] = _counts(texts, COUNTERS[name][0], vocabulary)
        raw["vectors"] = vectors
        if self.embed is not None:
            raw["sentences"] = _numbers(self.embed(texts), len(texts))
        raw["numeric"] = self._own_columns(numeric, len(texts))
        return raw

    def _own_columns(self, numeric: ArrayLike | None, n_texts: int) -> Floats:
        """The researcher's columns, as many as there were at fit."""
        columns = np.zeros((n_texts, 0)) if numeric is None else _numbers(numeric, n_texts)
        if columns.shape[1] != self.n_numeric:
            raise ValueError(f"There were {self.n_numeric} numeric columns at fit; now there are {columns.shape[1]}.")
        return columns

    def to_state(self) -> State:
        """A flat dict of arrays, enough to give any text the same row again."""
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
    def from_state(cls, state: Mapping[str, NDArray[Any]], embed: Embed | None = None) -> TextFeatures:
        """The features that wrote this state; `embed` again where it was used."""
        if int(state["version"]) != VERSION:
            raise ValueError(f"These features are of version {state['version']}; this program makes version {VERSION}.")
        features = cls(embed)
        features.n_numeric = int(state["n_numeric"])
        bounds = [(int(start), int(stop)) for start, stop in state["block_bounds"]]
        features.blocks = dict(zip(map(str, state["block_names"]), bounds, strict=True))
        if ("sentences" in features.blocks) != (embed is not None):
            raise ValueError("These features were made with another sentence embedder, or with none.")
        features.vocabularies = {name: tuple(map(str, state[f"vocabulary.{name}"])) for name in COUNTERS}
        named = {key.split(".", 1)[1]: key for key in state if key.startswith("centre.")}
        features.centrings = {n: Centring(state[k], float(state[f"size.{n}"])) for n, k in named.items()}
        features.ranks = {name: RankGaussian(state[f"knots.{name}"]) for name in ("surface", "numeric")}
        return features


class SentenceEmbedder:
    """An optional, slower reader of texts: a sentence-transformers model from a folder on this machine."""

    def __init__(self, folder: str) -> None:
        try:
            reader = import_module("sentence_transformers").SentenceTransformer
        except ImportError as error:
            raise RuntimeError("Install the extra 'embeddings' to read texts with sentence-transformers.") from error
        self._model = reader(folder, local_files_only=True)

    def __call__(self, texts: Sequence[str]) -> Floats:
        """One vector for each text."""
        return np.asarray(self._model.encode(list(texts), show_progress_bar=False), dtype=np.float64)


def item_kernels(blocks: Mapping[str, tuple[int, int]]) -> dict[str, WeightedSum]:
    """Kernels to choose between, the simplest first: smooth ones carry over to topics never seen."""
    counts = {"words": 0.2, "letters": 0.1}
    recipes: dict[str, tuple[float, dict[str, float]]] = {
        "surface": (4.0, {}),
        "surface, words": (4.0, counts),
        "surface, words, vectors": (4.0, {**counts, "vectors": 0.2}),
        "surface, words, many vectors": (4.0, {"words": 0.5, "letters": 0.1, "vectors": 0.5}),
        "near surface, words, vectors": (1.0, {**counts, "vectors": 0.2}),
    }
    return {name: _mixture(blocks, reach, weights) for name, (reach, weights) in recipes.items()}


def default_item_kernel(blocks: Mapping[str, tuple[int, int]]) -> WeightedSum:
    """The kernel for a study whose researcher has not chosen one."""
    return item_kernels(blocks)["surface, words, vectors"]


def _mixture(blocks: Mapping[str, tuple[int, int]], reach: float, weights: Mapping[str, float]) -> WeightedSum:
    """Linear and squared exponential over surface features, and linear over other blocks that have columns."""
    surface = blocks["surface"]
    smooth = SquaredExponential(scale=reach, columns=surface)
    terms: list[tuple[float, Any]] = [(0.5, Linear(columns=surface)), (0.5, smooth)]
    for name, weight in {**weights, "sentences": 0.2, "numeric": 0.5}.items():
        start, stop = blocks.get(name, (0, 0))
        if stop > start:
            terms.append((weight, Linear(columns=(start, stop))))
    return WeightedSum(tuple(terms))


class TraitFeatures:
    """Questionnaire answers as vectors: numbers standardised, words one column for each answer that was seen."""

    def fit(self, answers: Sequence[Mapping[str, Any]]) -> TraitFeatures:
        """The questions, their answers and the spread of their numbers are those of these workers."""
        self.numbers: dict[str, tuple[float, float]] = {}
        self.categories: dict[str, tuple[str, ...]] = {}
        for name in sorted({name for each in answers for name in each}):
            given = [each[name] for each in answers if not _missing(each.get(name))]
            if given and all(_is_number(value) for value in given):
                values = np.array([_number(name, value) for value in given])
                self.numbers[name] = (float(values.mean()), float(values.std()) or 1.0)
            elif given:
                common = Counter(map(str, given)).most_common(MOST_CATEGORIES)
                self.categories[name] = tuple(sorted(value for value, _ in common))
        return self

    def transform(self, answers: Sequence[Mapping[str, Any]]) -> Floats:
        """One finite row for each worker; a question without an answer is 0 throughout."""
        columns = [[self._number(name, each) for each in answers] for name in self.numbers]
        for name, categories in self.categories.items():
            for category in categories:
                columns.append([float(str(each.get(name)) == category) / np.sqrt(2.0) for each in answers])
        return np.array(columns, dtype=np.float64).reshape(len(columns), len(answers)).T.copy()

    def _number(self, name: str, answers: Mapping[str, Any]) -> float:
        """A standardised answer; 0, the mean, where there is none."""
        value = answers.get(name)
        if _missing(value) or not _is_number(value):
            return 0.0
        mean, spread = self.numbers[name]
        return float(np.clip((_number(name, value) - mean) / spread, -FURTHEST, FURTHEST))

    def to_state(self) -> State:
        """A flat dict of arrays, enough to give any answers the same row again."""
        pairs = [(name, category) for name, categories in self.categories.items() for category in categories]
        return {
            "number_names": np.array(list(self.numbers), dtype=np.str_),
            "number_scales": np.array(list(self.numbers.values()), dtype=np.float64).reshape(-1, 2),
            "category_names": np.array([name for name, _ in pairs], dtype=np.str_),
            "category_values": np.array([value for _, value in pairs], dtype=np.str_),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, NDArray[Any]]) -> TraitFeatures:
        """The features that wrote this state."""
        traits = cls()
        scales = [(float(mean), float(spread)) for mean, spread in state["number_scales"]]
        traits.numbers = dict(zip(map(str, state["number_names"]), scales, strict=True))
        traits.categories = {}
        for name, value in zip(map(str, state["category_names"]), map(str, state["category_values"]), strict=True):
            traits.categories[name] = (*traits.categories.get(name, ()), value)
        return traits


def words_of(text: str) -> list[str]:
    """Words and signs, in small letters."""
    return WORD.findall(text.lower())


def letters_of(text: str) -> list[str]:
    """Two and three letters in a row; every word stands between blanks."""
    words = [f" {word} " for word in text.lower().split()]
    return [word[at : at + n] for word in words for n in LETTERS for at in range(len(word) - n + 1)]


COUNTERS: Mapping[str, tuple[TermsOf, int]] = {"words": (words_of, 400), "letters": (letters_of, 300)}


def _vocabulary(texts: Sequence[str], terms_of: TermsOf, most: int) -> tuple[str, ...]:
    """The terms that most texts use, at least two texts each; none where there are none."""
    from sklearn.feature_extraction.text import CountVectorizer  # heavy to import, and pages only count

    counter = CountVectorizer(analyzer=terms_of, max_features=most, min_df=min(2, max(len(texts), 1)))
    try:
        counter.fit(texts)
    except ValueError:  # no text holds a term often enough
        return ()
    return tuple(counter.get_feature_names_out())


def _counts(texts: Sequence[str], terms_of: TermsOf, vocabulary: Sequence[str]) -> Floats:
    """log(1 + count) of each term of the vocabulary."""
    counts, column = np.zeros((len(texts), len(vocabulary))), {term: at for at, term in enumerate(vocabulary)}
    for row, text in enumerate(texts):
        for term, count in Counter(terms_of(text)).items():
            if term in column:
                counts[row, column[term]] = count
    return np.log1p(counts)


def _blocks(widths: Mapping[str, int]) -> Blocks:
    """Where each block starts and stops."""
    stops = np.cumsum(list(widths.values()))
    return {name: (int(stop - width), int(stop)) for (name, width), stop in zip(widths.items(), stops, strict=True)}


def _numbers(values: ArrayLike, n_rows: int) -> Floats:
    """A finite matrix with one row for each text."""
    matrix = np.asarray(values, dtype=np.float64)
    if matrix.ndim != 2 or len(matrix) != n_rows:
        raise ValueError(f"Numeric columns must be a table of {n_rows} rows, one for each text; got {matrix.shape}.")
    if not np.isfinite(matrix).all():
        raise ValueError("A numeric column holds a value that is missing or infinite.")
    return matrix


def _missing(value: Any) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


def _is_number(value: Any) -> bool:
    """A number, or a word that is written like one: forms send words."""
    if isinstance(value, str):
        return bool(NUMBER.fullmatch(value.strip()))
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def _number(name: str, value: Any) -> float:
    number = float(value)
    if not np.isfinite(number):
        raise ValueError(f"The answer to {name!r} is not a finite number.")
    return number
