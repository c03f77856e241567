"""Keywords that distinguish texts with high values from texts with low values. No Django, no randomness."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Floats = NDArray[np.float64]

WORD = re.compile(r"[^\W\d_]{3,}")
MIN_TEXTS = 3  # a word in fewer texts is chance
MAX_SHARE = 0.4  # of all texts; more common words are function words in any language
MIN_Z = 2.0  # standard errors between the mean values of texts with and without the word
MAX_KEYWORDS = 8

# English and German function words that are rare enough in short texts to pass the limits above.
STOP_WORDS = frozenset(Path(__file__).with_name("stop_words.txt").read_text(encoding="utf-8").split())


@dataclass(frozen=True, eq=False)
class WordTable:
    """The content words of each text: `present` is (texts, words); `lengths` are the texts' word counts."""

    words: tuple[str, ...]
    present: sparse.csr_matrix
    lengths: Floats


@dataclass(frozen=True)
class EndKeywords:
    """The keywords of texts with high and with low values, most significant first.

    The lengths are the median word counts of the quarter of the texts at each end.
    """

    high: list[str]
    low: list[str]
    high_length: float = 0.0
    low_length: float = 0.0


def extract_words(text: str) -> set[str]:
    """The words of a text without function words, in lower case."""
    return set(WORD.findall(text.lower())) - STOP_WORDS


def build_word_table(texts: Sequence[str]) -> WordTable:
    """Index the words that are neither too rare nor too common, in alphabetical order."""
    found = [extract_words(text) for text in texts]
    counts = Counter(word for words in found for word in words)
    most = min(max(MAX_SHARE * len(texts), MIN_TEXTS), len(texts) - 1)
    kept = sorted(word for word, n in counts.items() if MIN_TEXTS <= n <= most)
    column_of = {word: column for column, word in enumerate(kept)}
    pairs = [(row, column_of[word]) for row, words in enumerate(found) for word in words if word in column_of]
    rows, columns = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    present = sparse.csr_matrix((np.ones(len(pairs)), (rows, columns)), shape=(len(texts), len(kept)))
    return WordTable(tuple(kept), present, np.array([len(text.split()) for text in texts], dtype=np.float64))


def find_keywords(table: WordTable, values: Floats) -> EndKeywords:
    """Find the words whose texts have significantly higher or lower values than the texts without them."""
    if not table.words or np.ptp(values) == 0.0:
        return EndKeywords([], [])
    n, spread, with_word = len(values), float(values.std()), np.asarray(table.present.sum(axis=0)).ravel()
    mean_with = np.asarray(table.present.T @ values).ravel() / with_word
    mean_without = (values.sum() - with_word * mean_with) / (n - with_word)
    z = (mean_with - mean_without) / (spread * np.sqrt(1.0 / with_word + 1.0 / (n - with_word)))
    order, quarter = np.argsort(values, kind="stable"), max(n // 4, 1)
    lengths = (float(np.median(table.lengths[end])) for end in (order[-quarter:], order[:quarter]))
    return EndKeywords(_most_significant(table.words, z), _most_significant(table.words, -z), *lengths)


def _most_significant(words: tuple[str, ...], z: Floats) -> list[str]:
    best = np.argsort(-z, kind="stable")[:MAX_KEYWORDS]
    return [words[index] for index in best if z[index] >= MIN_Z]
