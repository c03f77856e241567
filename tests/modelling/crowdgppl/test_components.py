"""Components for people to look at: principal axes, energies, the paper's variances."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from modelling.crowdgppl import CrowdGPPL
from modelling.crowdgppl.display import component_energy, displayed

from .crowds import fitted, make_crowd


def in_use(model):
    energy = model.component_energy_
    return int((energy > 0.05 * energy.max()).sum())


def test_turning_to_principal_axes_changes_no_utility(crowd):
    model = fitted(crowd.labels)
    turned = model.item_components_.T @ model.user_components_
    fitted_part = model._post.items.mean[:, 1:] @ model._post.users.W.T
    assert_allclose(turned, fitted_part, rtol=1e-7, atol=1e-9)


def test_principal_axes_are_orthogonal_and_in_order_of_energy(crowd):
    model = fitted(crowd.labels)
    V = model.item_components_ - model.item_components_.mean(axis=1, keepdims=True)
    gram = V @ V.T
    off = gram - np.diag(gram.diagonal())
    assert np.abs(off).max() < 1e-8 * gram.max()
    assert np.all(np.diff(model.component_energy_) <= 0)


def test_the_energy_is_the_mean_square_of_the_products_of_posterior_means(crowd):
    model = fitted(crowd.labels)
    V, W = model.item_components_.T, model.user_components_.T
    centred = V - V.mean(axis=0)
    brute = [np.mean([(v * w) ** 2 for v in centred[:, c] for w in W[:, c]]) for c in range(4)]
    assert_allclose(component_energy(V, W), brute, rtol=1e-10)
    assert_allclose(model.component_energy_, brute, rtol=1e-10)


def test_energies_add_up_to_the_energy_of_the_personal_part(crowd):
    model = fitted(crowd.labels)
    personal = model._post.items.mean[:, 1:] @ model._post.users.W.T
    personal = personal - personal.mean(axis=0)
    assert model.component_energy_.sum() == pytest.approx((personal**2).mean(), rel=1e-8)


def test_learned_scales_keep_their_own_components(crowd):
    model = fitted(crowd.labels, scales="ard")
    post = model._post
    assert_allclose(model.item_components_, post.items.mean[:, 1:].T)
    assert_allclose(model.component_variances_, 1 / (post.scale_items.mean[1:] * post.s_w))


def test_redundant_components_shrink_under_learned_scales():
    """One true taste, six components: the others lose their variance (the paper's shrinkage)."""
    crowd = make_crowd(seed=11, n_users=40, n_items=40, per_user=60, components=1, variance=4.0)
    model = fitted(crowd.labels, n_components=6, scales="ard", likelihood="vb", v_prior=(1.0, 0.1), w_prior=(1.0, 1.0),
                   max_iterations=60, tolerance=1e-3)  # fmt: skip
    variances = np.sort(model.component_variances_)[::-1]
    assert variances[1] < 0.1 * variances[0]
    assert in_use(model) == 1


def true_axes(crowd):
    """How many principal axes of the true personal part are above 5 % of the largest: a drawn one may be weaker."""
    size = np.linalg.svd((crowd.V - crowd.V.mean(axis=0)) @ crowd.W.T, compute_uv=False) ** 2
    return int((size > 0.05 * size[0]).sum())


@pytest.mark.slow
@pytest.mark.parametrize("components", [1, 3])
def test_the_energies_count_the_true_tastes(components):
    """U = 25, N = 100, 2,300 labels; right in at least four of five crowds."""
    right = 0
    for seed in range(5):
        crowd = make_crowd(seed, 25, 100, 92, components, variance=float(components), consensus=1.0, features=True)
        model = CrowdGPPL(10).fit(crowd.labels, X_items=crowd.X)
        right += in_use(model) == true_axes(crowd)
    assert right >= 4


def test_users_whose_means_do_not_span_the_components_can_still_be_shown():
    crowd = make_crowd(seed=12, n_users=6, per_user=2)
    model = fitted(crowd.labels, n_components=6, n_users=9)
    model._post.users.W[:, 0] = 0.0
    axes = displayed(model._post, True, (1.0, 10.0), (1.0, 10.0))
    assert np.isfinite(axes.variances).all()
    assert_allclose(axes.items.T @ axes.users, model._post.items.mean[:, 1:] @ model._post.users.W.T, atol=1e-8)


def test_a_component_nobody_uses_is_not_blown_up():
    """One true taste, eight components: an unused one has the variance of its like, never more than a used one."""
    crowd = make_crowd(seed=12, n_users=40, n_items=40, per_user=40, components=1, variance=4.0)
    model = fitted(crowd.labels, n_components=8)
    variances, energy = model.component_variances_, model.component_energy_
    unused = energy < 0.05 * energy[0]
    assert unused.sum() >= 3
    assert variances[unused].max() <= variances[0]
    assert variances[unused].max() < 2 * variances[unused].min()


@pytest.mark.parametrize("scales", ["shared", "ard"])
def test_before_any_label_a_component_has_its_prior_variance(crowd, scales):
    model = fitted(crowd.labels, scales=scales)
    prior = model.prior_component_variance_
    blank = model._blank(model._post.space, model._post.ledger, model.choice_.variance)
    shown = displayed(blank, scales == "shared", model.v_prior, model.w_prior)
    assert prior.shape == (4,)
    assert_allclose(prior, shown.variances, rtol=1e-10)


def test_a_learned_scale_starts_at_the_product_of_its_priors(crowd):
    model = fitted(crowd.labels, scales="ard", v_prior=(2.0, 6.0), w_prior=(1.0, 5.0))
    assert_allclose(model.prior_component_variance_, 15.0)


def test_only_a_component_in_use_has_more_than_its_prior_variance():
    crowd = make_crowd(seed=12, n_users=40, n_items=40, per_user=40, components=1, variance=4.0)
    model = fitted(crowd.labels, n_components=8)
    in_use = model.component_energy_ > 0.05 * model.component_energy_[0]
    assert np.array_equal(model.component_variances_ > model.prior_component_variance_, in_use)


def test_the_prior_variances_are_kept_with_the_model(crowd):
    for scales in ("shared", "ard"):
        model = fitted(crowd.labels, scales=scales)
        again = CrowdGPPL.from_state(model.to_state())
        assert np.array_equal(again.prior_component_variance_, model.prior_component_variance_)


def test_without_components_there_is_no_prior_variance(crowd):
    assert fitted(crowd.labels, n_components=0).prior_component_variance_.shape == (0,)
