"""Static word vectors from the files of the wordllama wheel, without network access."""

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
COMMON_TOKENS = 10_000  # tokens are numbered in the order in which they were learned: later ones are rarer
BATCH = 256
TOKEN_FEATURES = (
    "mean_rarity", "highest_rarity", "rare_pieces", "mean_weight", "pieces_per_word", "log_pieces", "coherence",
)  # fmt: skip


def word_vectors(texts: Sequence[str]) -> tuple[Floats, Floats]:
    """The mean vector of each text, (n, 256), and statistics of its tokens, (n, len(TOKEN_FEATURES))."""
    vectors, tokens = np.zeros((len(texts), DIMENSIONS)), np.zeros((len(texts), len(TOKEN_FEATURES)))
    for row, ids in enumerate(_encode(texts)):
        if len(ids):
            vectors[row] = _table()[ids].mean(axis=0, dtype=np.float64)
            tokens[row] = _token_features(ids, len(texts[row].split()), vectors[row])
    return vectors, tokens


def _token_features(ids: NDArray[np.int64], n_words: int, mean: Floats) -> list[float]:
    """Rarity, vector length and coherence of the tokens of one text."""
    rarity = np.log1p(ids)
    weight = float(_weights()[ids].mean())
    return [
        float(rarity.mean()),
        float(rarity.max()),
        float(np.mean(ids > COMMON_TOKENS)),
        weight,
        len(ids) / max(n_words, 1),
        float(np.log1p(len(ids))),
        float(np.linalg.norm(mean)) / max(weight, 1e-9),
    ]


def _encode(texts: Sequence[str]) -> Iterator[NDArray[np.int64]]:
    """The token ids of each text."""
    for start in range(0, len(texts), BATCH):
        batch = [text.encode("utf-8", "replace").decode("utf-8") for text in texts[start : start + BATCH]]
        for encoding in _tokeniser().encode_batch(batch, add_special_tokens=False):
            yield np.array(encoding.ids, dtype=np.int64)


@lru_cache(maxsize=1)
def _folder() -> Path:
    """The folder with the wheel's files. The package is not imported, because its loader may try to download files."""
    spec = find_spec("wordllama")
    if spec is None or not spec.submodule_search_locations:
        raise RuntimeError("The package wordllama, which contains the word vectors, is not installed.")
    return Path(next(iter(spec.submodule_search_locations)))


@lru_cache(maxsize=1)
def _tokeniser() -> Any:
    tokeniser = Tokenizer.from_file(str(_folder() / TOKENISER))
    tokeniser.no_padding()
    tokeniser.no_truncation()
    return tokeniser


@lru_cache(maxsize=1)
def _table() -> NDArray[np.float16]:
    """The vector of each token (32000, 256)."""
    table: NDArray[np.float16] = load_file(str(_folder() / WEIGHTS))["embedding.weight"]
    return table


@lru_cache(maxsize=1)
def _weights() -> NDArray[np.float32]:
    """The length of each vector (32000,); content words have long ones."""
    lengths: NDArray[np.float32] = np.linalg.norm(_table().astype(np.float32), axis=1)
    return lengths
