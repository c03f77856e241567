"""Covariance functions."""

import json

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.spatial.distance import cdist, pdist

from modelling.crowdgppl import Linear, Matern32, SquaredExponential, WeightedSum
from modelling.crowdgppl.kernels import kernel_from_state

X = np.random.default_rng(0).normal(size=(20, 6))
KERNELS = [
    Matern32(),
    Matern32(length_scale=2.0, columns=(1, 4)),
    SquaredExponential(scale=4.0),
    Linear(),
    Linear(columns=(0, 2)),
    WeightedSum(((0.5, Matern32(columns=(0, 3))), (0.3, Linear()), (0.2, SquaredExponential(columns=(3, 6))))),
]


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_kernel_is_a_covariance(kernel):
    k = kernel.fit(X)
    K = k(X)
    assert_allclose(K, K.T, atol=1e-12)
    assert np.linalg.eigvalsh(K).min() > -1e-9
    assert_allclose(K.diagonal(), k.diagonal(X), atol=1e-12)
    assert_allclose(K[:5, 5:10].diagonal(), k.paired(X[:5], X[5:10]), atol=1e-12)
    assert_allclose(k(X[:5], X), K[:5], atol=1e-12)


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_mean_diagonal_is_one(kernel):
    assert kernel.fit(X).diagonal(X).mean() == pytest.approx(1.0)


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_kernel_survives_json(kernel):
    k = kernel.fit(X)
    again = kernel_from_state(json.loads(json.dumps(k.to_state())))
    assert again == k
    assert np.array_equal(again(X), k(X))


def test_matern_is_its_formula():
    r = np.sqrt(3) * cdist(X, X) / 1.7
    assert_allclose(Matern32(length_scale=1.7).fit(X)(X), (1 + r) * np.exp(-r), atol=1e-7)


def test_the_median_leaves_out_zero_distances():
    one_hot = np.repeat(np.eye(2), 30, axis=0)
    assert Matern32().fit(one_hot).length_scale == pytest.approx(np.sqrt(2))
    assert Matern32().fit(np.ones((5, 2))).length_scale == 1.0
    assert Matern32(scale=3.0).fit(X).length_scale == pytest.approx(3 * np.median(pdist(X)))


def test_many_dimensions_lengthen_the_scale():
    wide = np.random.default_rng(0).normal(size=(10, 256))
    assert Matern32().fit(wide).length_scale == pytest.approx(16 * np.median(pdist(wide)))


def test_equal_rows_have_no_distance():
    rows = np.vstack((X, X[3]))
    K = SquaredExponential().fit(rows)(rows)
    assert K[3, 20] == 1.0


def test_a_linear_kernel_remembers_the_mean_it_removed():
    k = Linear().fit(X + 5)
    assert_allclose(k(X + 5), Linear().fit(X)(X), atol=1e-12)


def test_a_kernel_without_numbers_says_what_to_do():
    for kernel in (Matern32(), Linear()):
        with pytest.raises(ValueError, match="call fit first"):
            kernel(X)
    with pytest.raises(ValueError, match="length_scale"):
        Matern32(length_scale=-1.0).fit(X)
    with pytest.raises(ValueError, match="negative weight"):
        WeightedSum(((-1.0, Linear()),))
    with pytest.raises(ValueError, match="no kernel called"):
        kernel_from_state({"kind": "Periodic"})
