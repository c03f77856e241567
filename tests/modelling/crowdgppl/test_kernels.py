"""Covariance functions and the whitened coordinates they lead to."""

import json

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.spatial.distance import cdist, pdist

from modelling.crowdgppl import Linear, Matern32, SquaredExponential, WeightedSum
from modelling.crowdgppl.inducing import cluster_centres, item_space, nystrom_space, spectral_space
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


def test_the_leading_directions_are_the_best_ones():
    kernel = SquaredExponential().fit(X)
    values = np.sort(np.linalg.eigvalsh(kernel(X)))[::-1]
    space = spectral_space(X, kernel, 7)
    left_out = kernel(X) - space.Psi @ space.Psi.T
    assert np.trace(left_out) == pytest.approx(values[7:].sum(), rel=1e-6)
    assert_allclose(space.project(X, 20), space.Psi, atol=1e-8)


def test_inducing_points_are_cluster_centres_and_no_more_than_asked():
    centres = cluster_centres(X, 5, seed=0)
    assert centres.shape == (5, 6)
    assert np.array_equal(centres, cluster_centres(X, 5, seed=0))
    assert len(cluster_centres(np.repeat(X[:3], 4, axis=0), 5, seed=0)) == 3
    space = nystrom_space(X, Matern32().fit(X), centres)
    assert np.linalg.eigvalsh(Matern32().fit(X)(X) - space.Psi @ space.Psi.T).min() > -1e-5


def test_what_the_directions_leave_out_of_a_pair_is_never_negative():
    view = spectral_space(X, Matern32().fit(X), 4).view(X[:2] + 0.1, 2)
    a, b = np.triu_indices(22, 1)
    full = np.vstack((X, X[:2] + 0.1))
    K = Matern32().fit(X)(full)
    Psi = view.rows(np.arange(22))
    expected = K[a, a] + K[b, b] - 2 * K[a, b] - ((Psi[a] - Psi[b]) ** 2).sum(axis=1)
    assert_allclose(view.rest(a, b), np.maximum(expected, 0), atol=1e-9)


def test_without_features_every_item_is_its_own_direction():
    space = item_space(None, 4, Matern32(), 2, "auto", 0)
    assert space.M == 4
    assert np.array_equal(space.dense, np.eye(4))
