"""Which words tell the texts at one end of a component from those at the other. No Django, no random numbers."""

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
FEWEST_TEXTS = 3  # with fewer, a word is chance
LARGEST_SHARE = 0.4  # of all texts; beyond, a word is grammar in whatever language
CLEAR = 2.0  # standard errors between texts with the word and texts without it
SHOWN = 8

# Words of grammar, English and German, that are rare enough in short texts to pass as content.
STOP_WORDS = frozenset(Path(__file__).with_name("stop_words.txt").read_text(encoding="utf-8").split())


@dataclass(frozen=True, eq=False)
class WordTable:
    """Which of the words each text holds; `present` is (texts, words), `lengths` counts all words of each text."""

    words: tuple[str, ...]
    present: sparse.csr_matrix
    lengths: Floats


@dataclass(frozen=True)
class Ends:
    """The words that go with high values, and those that go with low ones, the clearest first.

    The lengths are median counts of words in the quarter of the texts at each end.
    """

    high: list[str]
    low: list[str]
    high_length: float = 0.0
    low_length: float = 0.0


def words_in(text: str) -> set[str]:
    """The words of a text that say something, in lower case."""
    return set(WORD.findall(text.lower())) - STOP_WORDS


def word_table(texts: Sequence[str]) -> WordTable:
    """The words that are neither chance nor grammar in these texts, in alphabetical order."""
    held = [words_in(text) for text in texts]
    counts = Counter(word for words in held for word in words)
    most = min(max(LARGEST_SHARE * len(texts), FEWEST_TEXTS), len(texts) - 1)
    kept = sorted(word for word, n in counts.items() if FEWEST_TEXTS <= n <= most)
    at = {word: column for column, word in enumerate(kept)}
    pairs = [(row, at[word]) for row, words in enumerate(held) for word in words if word in at]
    rows, columns = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    present = sparse.csr_matrix((np.ones(len(pairs)), (rows, columns)), shape=(len(texts), len(kept)))
    return WordTable(tuple(kept), present, np.array([len(text.split()) for text in texts], dtype=np.float64))


def distinguishing(table: WordTable, values: Floats) -> Ends:
    """The words whose texts have clearly higher or lower values than the texts without them."""
    if not table.words or np.ptp(values) == 0.0:
        return Ends([], [])
    n, spread, with_word = len(values), float(values.std()), np.asarray(table.present.sum(axis=0)).ravel()
    mean_with = np.asarray(table.present.T @ values).ravel() / with_word
    mean_without = (values.sum() - with_word * mean_with) / (n - with_word)
    clearness = (mean_with - mean_without) / (spread * np.sqrt(1.0 / with_word + 1.0 / (n - with_word)))
    order, quarter = np.argsort(values, kind="stable"), max(n // 4, 1)
    lengths = (float(np.median(table.lengths[end])) for end in (order[-quarter:], order[:quarter]))
    return Ends(_clearest(table.words, clearness), _clearest(table.words, -clearness), *lengths)


def _clearest(words: tuple[str, ...], clearness: Floats) -> list[str]:
    best = np.argsort(-clearness, kind="stable")[:SHOWN]
    return [words[place] for place in best if clearness[place] >= CLEAR]
