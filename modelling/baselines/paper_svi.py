"""The paper's stochastic variational inference (al:crowdgppl) with its misprints corrected.

Equations are named by the labels in the LaTeX source of the paper; docs/model.md lists them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import ClassVar

import numpy as np
from scipy.special import ndtr
from scipy.stats import chi2

from modelling.baselines.factor_model import Batch, FactorModel, Gamma, GaussianTerms
from modelling.crowdgppl.arrays import FloatArray, IntArray
from modelling.crowdgppl.kernels import Kernel
from modelling.crowdgppl.labels import PairwiseLabels

SLOPE_PASSES, SLOPE_TOLERANCE = 10, 1e-5  # the inner loop of al:crowdgppl: until G has converged
SLOPE_DAMPING = 0.5  # without damping the inner loop diverges for small Q
QUANTILES = 64  # of the chi-squared distribution, for the prior variance of Phi(z)


class PaperSVI(FactorModel):
    """crowdGPPL by stochastic variational inference over labels, with the paper's linearised likelihood."""

    SETTINGS: ClassVar = (
        "n_components", "n_inducing_items", "n_inducing_users", "n_feature_components", "consensus", "batch_size",
        "n_iterations", "forgetting_rate", "delay", "item_kernel", "user_kernel", "t_prior", "v_prior", "w_prior",
        "random_state",
    )  # fmt: skip

    def __init__(
        self, n_components: int = 20, n_inducing_items: int | None = 100, n_inducing_users: int | None = 100,
        n_feature_components: int | None = None, consensus: bool = True, batch_size: int = 200,
        n_iterations: int = 100, forgetting_rate: float = 0.9, delay: float = 1.0, item_kernel: Kernel | None = None,
        user_kernel: Kernel | None = None, t_prior: Gamma = (1.0, 100.0), v_prior: Gamma = (1.0, 10.0),
        w_prior: Gamma = (1.0, 10.0), random_state: int = 0,
    ) -> None:  # fmt: skip
        self.n_components, self.n_feature_components = n_components, n_feature_components
        self.n_inducing_items, self.n_inducing_users = n_inducing_items, n_inducing_users
        self.consensus = consensus
        self.batch_size, self.n_iterations = batch_size, n_iterations
        self.forgetting_rate, self.delay = forgetting_rate, delay
        self._set_kernels(item_kernel, user_kernel)
        self.t_prior, self.v_prior, self.w_prior = t_prior, v_prior, w_prior
        self.random_state = random_state

    def _fit(self, labels: PairwiseLabels, X_items: FloatArray | None, X_users: FloatArray | None) -> None:
        """Run Algorithm 2 of the paper (al:crowdgppl)."""
        rng = np.random.default_rng(self.random_state)
        self._set_up(rng, labels, X_items, X_users)
        self._learn(rng, labels, self.n_iterations, self.delay)
        self._store_moments()

    def _learn(
        self, rng: np.random.Generator, labels: PairwiseLabels, n_iterations: int, delay: float,
        after: Callable[[int], None] = lambda i: None,
    ) -> None:  # fmt: skip
        """Iterations of al:crowdgppl from the current factors; `after` is called with the number of each one."""
        for i, rows in enumerate(self._mini_batches(rng, len(labels), n_iterations)):
            rho = (i + delay) ** -self.forgetting_rate
            batch, pi = self._batch(labels, rows), len(labels) / len(rows)
            Q = self._label_noise(labels.take(rows))  # for this batch only, so only the shuffle depends on P
            self._iterate(batch, Q / np.maximum(pi * batch.weight, 1e-12), rho)
            after(i)

    def _mini_batches(self, rng: np.random.Generator, n_labels: int, n_iterations: int) -> Iterator[IntArray]:
        """Mini-batches without replacement within an epoch."""
        done = 0
        while done < n_iterations:
            order = rng.permutation(n_labels)
            for start in range(0, n_labels, self.batch_size):
                if done < n_iterations:
                    yield order[start : start + self.batch_size]
                done += 1

    def _label_noise(self, labels: PairwiseLabels) -> FloatArray:
        """Q of each label from the prior variance of z, which depends on how similar the two items are."""
        points = self._item_points()
        gap = np.full(len(labels), 2.0)
        if points is not None:
            gap = points.prior_differences(self.X[labels.a], self.X[labels.b])
        t, v, w = (rate / shape for shape, rate in (self.t_prior, self.v_prior, self.w_prior))
        return label_noise(labels.y, gap, t if self.consensus else 0.0, v * w, self.n_components)

    def _iterate(self, batch: Batch, Q: FloatArray, rho: float) -> None:
        """One iteration of al:crowdgppl: t until the slope has converged, then each v_c, each w_c, then the scales."""
        for factor in (self._t, *self._v, *self._w):
            factor.begin_step()
        terms = self._consensus_steps(batch, Q, rho)
        for side in (self._item_step, self._user_step):
            for c in range(self.n_components):
                side(c, batch, terms, rho)
        for factor in (self._t, *self._v, *self._w):
            factor.update_scale()

    def _consensus_steps(self, batch: Batch, Q: FloatArray, rho: float) -> GaussianTerms:
        """Update t and the linearisation about its mean.

        Departure from the paper: the derivative of Phi is the normal density and does not depend on y.
        As printed, a label y = 0 would raise item a. See test_preferring_b_lowers_a.
        """
        z = batch.z
        slope, terms = linearise(z, batch.y, Q)
        if not self.consensus:
            return terms
        for _ in range(SLOPE_PASSES):
            self._consensus_step(batch, terms, rho)
            z = z + SLOPE_DAMPING * (batch.z - z)
            previous, (slope, terms) = slope, linearise(z, batch.y, Q)
            if np.abs(slope - previous).max() < SLOPE_TOLERANCE:
                break
        return terms


def linearise(z: FloatArray, y: FloatArray, Q: FloatArray) -> tuple[FloatArray, GaussianTerms]:
    """The slope G of Phi at z, and N(y; Phi(z) + G (x - z), Q) as a function of x."""
    slope = np.exp(-0.5 * z**2) / np.sqrt(2.0 * np.pi)
    return slope, GaussianTerms(slope**2 / Q, slope * (y - ndtr(z) + slope * z) / Q)


def label_noise(y: FloatArray, gap: FloatArray, t_scale: float, vw_scale: float, n_components: int) -> FloatArray:
    """Q = p (1 - p), where p is the mean of a Beta with the prior moments of Phi(z), updated with y.

    Given the weights, z ~ N(0, gap (t_scale + vw_scale x)), where gap = k_aa + k_bb - 2 k_ab and x ~ chi^2_C; the
    variance of Phi(z) for z ~ N(0, v) is arcsin(v / (1 + v)) / (2 pi), exactly, and its mean is always 1/2.
    """
    levels = (np.arange(QUANTILES) + 0.5) / QUANTILES
    x = chi2.ppf(levels, n_components) if n_components else np.zeros(1)
    distinct, at = np.unique(np.maximum(gap, 1e-9).round(9), return_inverse=True)
    v = distinct[:, None] * (t_scale + vw_scale * x)
    spread = (np.arcsin(v / (1.0 + v)) / (2.0 * np.pi)).mean(axis=1)[at]
    total = 0.25 / np.maximum(spread, 1e-12) - 1.0
    p = (y + 0.5 * total) / (1.0 + total)
    return np.asarray(p * (1.0 - p))
