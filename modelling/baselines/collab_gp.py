"""Collaborative Gaussian processes (Houlsby et al. 2012): users weight a few functions of pairs; no consensus."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from modelling.baselines.factor_model import Batch, FactorModel, GaussianTerms
from modelling.crowdgppl.arrays import FloatArray
from modelling.crowdgppl.kernels import Kernel
from modelling.crowdgppl.labels import PairwiseLabels
from modelling.crowdgppl.likelihood import cavity, matched_site

DAMPING, TOLERANCE = 0.5, 1e-3


class CollabGP(FactorModel):
    """g_u(a, b) = sum_d w_d(u) h_d(a, b) with GP priors of scale 1 on each h_d over pairs and each w_d over users.

    The preference kernel of h_d, k(a, a') + k(b, b') - k(a, b') - k(b, a'), is that of differences h_d(a, b) =
    v_d(a) - v_d(b) with v_d ~ GP(0, k). So v_d at the items is equivalent to h_d at the pairs, with N rather than P
    points, and also gives utilities, which the original does not compute. As in the original, the likelihood is
    handled by expectation propagation and the products w_d h_d by variational Bayes.
    """

    SETTINGS: ClassVar = (
        "n_components", "n_inducing_items", "n_inducing_users", "n_iterations", "item_kernel", "user_kernel",
        "random_state",
    )  # fmt: skip

    def __init__(
        self, n_components: int = 20, n_inducing_items: int | None = 100, n_inducing_users: int | None = 100,
        n_iterations: int = 30, item_kernel: Kernel | None = None, user_kernel: Kernel | None = None,
        random_state: int = 0,
    ) -> None:  # fmt: skip
        self.n_components, self.n_iterations = n_components, n_iterations
        self.n_inducing_items, self.n_inducing_users = n_inducing_items, n_inducing_users
        self.n_feature_components, self.consensus = n_components, False
        self.t_prior = self.v_prior = self.w_prior = (1.0, 1.0)  # E[s] = 1; the scales are not updated
        self._set_kernels(item_kernel, user_kernel)
        self.random_state = random_state

    def _fit(self, labels: PairwiseLabels, X_items: FloatArray | None, X_users: FloatArray | None) -> None:
        """Alternate updates of the item factors, user factors and EP sites until the predicted z converge."""
        self._set_up(np.random.default_rng(self.random_state), labels, X_items, X_users)
        batch = self._batch(labels, np.arange(len(labels)))
        start = np.zeros(len(labels)), np.ones(len(labels))
        sites = GaussianTerms(*matched_site(*start, batch.y, batch.weight))
        for _ in range(self.n_iterations):
            before = batch.z
            for c in range(self.n_components):
                self._item_step(c, batch, sites, rho=1.0)
                self._user_step(c, batch, sites, rho=1.0)
            sites = self._updated_sites(batch, sites)
            if np.abs(batch.z - before).mean() < TOLERANCE * max(1.0, np.abs(batch.z).mean()):
                break
        self._store_moments()

    def _updated_sites(self, batch: Batch, sites: GaussianTerms) -> GaussianTerms:
        """Match the moments of each label under its cavity, with damping."""
        variance = np.zeros(len(batch.y))
        for c in range(self.n_components):
            w, w_var = self._weights_of(c, batch.u)
            variance += self._difference_variance(c, batch) * (w**2 + w_var) + batch.dv[:, c] ** 2 * w_var
        means = cavity(batch.z, variance, sites.precision, sites.shift)
        precision, shift = matched_site(*means, batch.y, batch.weight)
        return GaussianTerms(
            sites.precision + DAMPING * (precision - sites.precision), sites.shift + DAMPING * (shift - sites.shift)
        )
