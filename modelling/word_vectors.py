"""Static word vectors from the files of the wordllama wheel: read from disk, never from the network."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file
from tokenizers import Tokenizer

Floats: TypeAlias = NDArray[np.float64]

WEIGHTS, TOKENISER = "weights/l2_supercat_256.safetensors", "tokenizers/l2_supercat_tokenizer_config.json"
DIMENSIONS = 256
COMMON_PIECES = 10_000  # pieces are numbered by how early the tokeniser needed them: later ones are rarer
TEXTS_AT_ONCE = 256
PIECE_NAMES = (
    "mean_rarity", "highest_rarity", "rare_pieces", "mean_weight", "pieces_per_word", "log_pieces", "coherence",
)  # fmt: skip


def word_vectors(texts: Sequence[str]) -> tuple[Floats, Floats]:
    """The mean vector of each text, (n, 256), and what its pieces say of its words, (n, len(PIECE_NAMES))."""
    vectors, pieces = np.zeros((len(texts), DIMENSIONS)), np.zeros((len(texts), len(PIECE_NAMES)))
    for row, ids in enumerate(_encode(texts)):
        if len(ids):
            vectors[row] = _table()[ids].mean(axis=0, dtype=np.float64)
            pieces[row] = _describe(ids, len(texts[row].split()), vectors[row])
    return vectors, pieces


def _describe(ids: NDArray[np.int64], n_words: int, mean: Floats) -> list[float]:
    """How rare, how heavy and how much alike the pieces of one text are."""
    rarity = np.log1p(ids)
    weight = float(_weights()[ids].mean())
    return [
        float(rarity.mean()),
        float(rarity.max()),
        float(np.mean(ids > COMMON_PIECES)),
        weight,
        len(ids) / max(n_words, 1),
        float(np.log1p(len(ids))),
        float(np.linalg.norm(mean)) / max(weight, 1e-9),
    ]


def _encode(texts: Sequence[str]) -> Iterator[NDArray[np.int64]]:
    """The numbers of the pieces of each text."""
    for start in range(0, len(texts), TEXTS_AT_ONCE):
        batch = [text.encode("utf-8", "replace").decode("utf-8") for text in texts[start : start + TEXTS_AT_ONCE]]
        for encoding in _tokeniser().encode_batch(batch, add_special_tokens=False):
            yield np.array(encoding.ids, dtype=np.int64)


@lru_cache(maxsize=1)
def _folder() -> Path:
    """Where the wheel put its files; the package itself is not imported, since its loader may try to download."""
    spec = find_spec("wordllama")
    if spec is None or not spec.submodule_search_locations:
        raise RuntimeError("The package wordllama is not installed, so there are no word vectors.")
    return Path(next(iter(spec.submodule_search_locations)))


@lru_cache(maxsize=1)
def _tokeniser() -> Any:
    tokeniser = Tokenizer.from_file(str(_folder() / TOKENISER))
    tokeniser.no_padding()
    tokeniser.no_truncation()
    return tokeniser


@lru_cache(maxsize=1)
def _table() -> NDArray[np.float16]:
    """(32000, 256): the vector of each piece."""
    table: NDArray[np.float16] = load_file(str(_folder() / WEIGHTS))["embedding.weight"]
    return table


@lru_cache(maxsize=1)
def _weights() -> NDArray[np.float32]:
    """(32000,): the length of each vector; words that carry meaning have long ones."""
    lengths: NDArray[np.float32] = np.linalg.norm(_table().astype(np.float32), axis=1)
    return lengths
