"""The paper's stochastic variational inference (al:crowdgppl) with its misprints corrected.

Equations are named by the labels in the LaTeX source of the paper; docs/model.md lists them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import ndtr

from modelling.baselines.base import Baseline, Moments
from modelling.baselines.sparse_gp import USER_JITTER, GammaScale, IndependentGP, InducedGP, InducingPoints
from modelling.crowdgppl.arrays import FloatArray, IntArray
from modelling.crowdgppl.kernels import Kernel, Matern32
from modelling.crowdgppl.labels import PairwiseLabels

SLOPE_PASSES, SLOPE_TOLERANCE = 10, 1e-5  # the inner loop of al:crowdgppl: until G has converged
SLOPE_DAMPING = 0.5  # without damping the inner loop diverges for small Q
Gamma = tuple[float, float]


@dataclass
class Batch:
    """A mini-batch of labels with everything that stays fixed during an iteration."""

    u: IntArray
    y: FloatArray
    Q: FloatArray
    rows: FloatArray  # (P_i, M) A_a - A_b
    residual: FloatArray  # (P_i,) prior residual of the variance of v_a - v_b, for s = 1
    pi: float  # P / P_i
    t: FloatArray  # (P_i,) E[t_a - t_b], updated as the factors move
    dv: FloatArray  # (P_i, C) E[v_ca - v_cb]
    w: FloatArray  # (P_i, C) E[w_cu]

    @property
    def z(self) -> FloatArray:
        """E[z] of each label (eq:vw_plus_t)."""
        return np.asarray(self.t + np.sum(self.dv * self.w, axis=1))


class PaperSVI(Baseline):
    """crowdGPPL by stochastic variational inference over labels, with the paper's linearised likelihood."""

    SETTINGS: ClassVar = (
        "n_components", "n_inducing_items", "n_inducing_users", "n_feature_components", "consensus", "batch_size",
        "n_iterations", "forgetting_rate", "delay", "item_kernel", "user_kernel", "t_prior", "v_prior", "w_prior",
        "random_state",
    )  # fmt: skip
    FITTED: ClassVar = ("t", "V", "W", "W_var", "cov", "s", "X", "s_w", "locations")

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
        self.item_kernel = Matern32() if item_kernel is None else item_kernel
        self.user_kernel = Matern32() if user_kernel is None else user_kernel
        self.t_prior, self.v_prior, self.w_prior = t_prior, v_prior, w_prior
        self.random_state = random_state

    def _fit(self, labels: PairwiseLabels, X_items: FloatArray | None, X_users: FloatArray | None) -> None:
        """al:crowdgppl."""
        rng = np.random.default_rng(self.random_state)
        self.X = np.eye(self.n_items_) if X_items is None else X_items
        self._identity = X_items is None
        self._set_up(rng, X_users)
        prior_variance = self.t_prior[1] / self.t_prior[0] + self.n_components * self.v_prior[1] / self.v_prior[0]
        Q = label_noise(labels.y, prior_variance) / np.maximum(labels.weights, 1e-12)
        for i, rows in enumerate(self._mini_batches(rng, len(labels))):
            rho = (i + self.delay) ** -self.forgetting_rate
            self._iterate(self._batch(labels, Q, rows), rho)
        self._store_moments()

    def _set_up(self, rng: np.random.Generator, X_users: FloatArray | None) -> None:
        """Start all factors at their priors, except w.

        Departure from the paper: with v and w both at their prior means neither ever moves, so w starts at random and
        items step first.
        See test_prior_means_are_a_saddle.
        """
        self._points = None if self._identity else InducingPoints.choose(
            self.X, self.item_kernel, self.n_inducing_items, self.random_state
        )  # fmt: skip
        self.A = np.eye(self.n_items_) if self._points is None else self._points.A(self.X)
        K_mm_inv = np.eye(self.n_items_) if self._points is None else self._points.K_mm_inv
        self._t = InducedGP(K_mm_inv, GammaScale(*self.t_prior))
        self._v = [InducedGP(K_mm_inv, GammaScale(*self.v_prior)) for _ in range(self.n_components)]
        self._w: list[InducedGP | IndependentGP] = []
        features = 0 if X_users is None else self.n_feature_components or (self.n_components + 1) // 2
        if X_users is not None:
            users = InducingPoints.choose(
                X_users, self.user_kernel, self.n_inducing_users, self.random_state, USER_JITTER
            )
            self._A_w, L_mm_inv = users.A(X_users), users.K_mm_inv
            self._w += [InducedGP(L_mm_inv, GammaScale(*self.w_prior)) for _ in range(features)]
        rest = self.n_components - len(self._w)
        self._w += [IndependentGP(self.n_users_, GammaScale(*self.w_prior)) for _ in range(rest)]
        for w_c in self._w:
            w_c.start_at(rng.standard_normal(len(w_c.shift)))

    def _mini_batches(self, rng: np.random.Generator, n_labels: int) -> Iterator[IntArray]:
        """Mini-batches without replacement within an epoch."""
        done = 0
        while done < self.n_iterations:
            order = rng.permutation(n_labels)
            for start in range(0, n_labels, self.batch_size):
                if done < self.n_iterations:
                    yield order[start : start + self.batch_size]
                done += 1

    def _batch(self, labels: PairwiseLabels, Q: FloatArray, rows: IntArray) -> Batch:
        a, b = labels.a[rows], labels.b[rows]
        if self._points is None:
            residual = np.zeros(len(rows))
        else:
            K, X = self._points.kernel, self.X
            prior = K.diagonal(X[a]) + K.diagonal(X[b]) - 2.0 * K.paired(X[a], X[b])
            across = K(X[a], self._points.locations) - K(X[b], self._points.locations)
            residual = np.maximum(prior - np.sum((across @ self._points.K_mm_inv) * across, axis=1), 0.0)
        u, D = labels.u[rows], self.A[a] - self.A[b]
        V = np.array([v_c.mean for v_c in self._v]).reshape(self.n_components, D.shape[1])
        w = np.array([self._users(c, u)[0] for c in range(self.n_components)]).reshape(self.n_components, len(u))
        pi = len(labels) / len(rows)
        return Batch(u, labels.y[rows], Q[rows], D, residual, pi, D @ self._t.mean, D @ V.T, w.T.copy())

    def _iterate(self, batch: Batch, rho: float) -> None:
        """One iteration of al:crowdgppl: t until the slope has converged, then each v_c, each w_c, then the scales."""
        for factor in (self._t, *self._v, *self._w):
            factor.begin_step()
        slope, target = self._consensus_steps(batch, rho)
        for side in (self._item_step, self._user_step):
            for c in range(self.n_components):
                side(c, batch, slope, target, rho)
        for factor in (self._t, *self._v, *self._w):
            factor.update_scale()

    def _consensus_steps(self, batch: Batch, rho: float) -> tuple[FloatArray, FloatArray]:
        """Update t and the linearisation about its mean: the slope, and the target y - Phi(z) + slope z.

        Departure from the paper: the derivative of Phi is the normal density and does not depend on y.
        As printed, a label y = 0 would raise item a. See test_preferring_b_lowers_a.
        """
        z = batch.z
        slope, target = _linearise(z, batch.y)
        if not self.consensus:
            return slope, target
        for _ in range(SLOPE_PASSES):
            others = batch.z - batch.t
            design, square = batch.pi * slope / batch.Q, batch.pi * slope**2 / batch.Q
            self._t.step(batch.rows, design, square, target - slope * others, rho)
            batch.t = batch.rows @ self._t.mean
            z = z + SLOPE_DAMPING * (batch.z - z)
            previous, (slope, target) = slope, _linearise(z, batch.y)
            if np.abs(slope - previous).max() < SLOPE_TOLERANCE:
                break
        return slope, target

    def _item_step(self, c: int, batch: Batch, slope: FloatArray, target: FloatArray, rho: float) -> None:
        """eq:Sv, eq:hatv."""
        w_hat, w_var = self._users(c, batch.u)
        others = batch.z - w_hat * batch.dv[:, c]
        design, square = batch.pi * slope * w_hat / batch.Q, batch.pi * slope**2 * (w_hat**2 + w_var) / batch.Q
        self._v[c].step(batch.rows, design, square, target - slope * others, rho)
        batch.dv[:, c] = batch.rows @ self._v[c].mean

    def _user_step(self, c: int, batch: Batch, slope: FloatArray, target: FloatArray, rho: float) -> None:
        """eq:Sigma, eq:what."""
        v_c, w_c = self._v[c], self._w[c]
        dv = batch.dv[:, c]
        dv_var = np.sum((batch.rows @ v_c.cov) * batch.rows, axis=1) + batch.residual / v_c.scale.mean
        residual = target - slope * (batch.z - batch.w[:, c] * dv)
        design, square = batch.pi * slope * dv / batch.Q, batch.pi * slope**2 * (dv**2 + dv_var) / batch.Q
        if isinstance(w_c, InducedGP):
            w_c.step(self._A_w[batch.u], design, square, residual, rho)
        else:
            w_c.step_points(batch.u, design, square, residual, rho)
        batch.w[:, c] = self._users(c, batch.u)[0]

    def _users(self, c: int, u: IntArray) -> Moments:
        """Mean and variance of w_c for these users."""
        w_c = self._w[c]
        if isinstance(w_c, IndependentGP):
            return w_c.mean[u], w_c.variance[u]
        rows = self._A_w[u]
        return rows @ w_c.mean, np.asarray(np.sum((rows @ w_c.cov) * rows, axis=1))

    def _store_moments(self) -> None:
        """Store the moments that predictions need as arrays."""
        factors = (self._t, *self._v)
        self.t, self.s = self._t.mean, np.array([factor.scale.mean for factor in factors])
        self.V = np.array([v_c.mean for v_c in self._v]).reshape(self.n_components, -1)
        self.cov = np.array([factor.cov for factor in factors])
        everyone = np.arange(self.n_users_)
        moments = [self._users(c, everyone) for c in range(self.n_components)]
        self.W = np.array([mean for mean, _ in moments]).reshape(-1, self.n_users_)
        self.W_var = np.array([variance for _, variance in moments]).reshape(-1, self.n_users_)
        self.s_w = np.array([w_c.scale.mean for w_c in self._w])
        self.locations = np.zeros((0, 0)) if self._points is None else self._points.locations

    def _moments(self, user: int | None, items: IntArray, X_new: FloatArray | None) -> Moments:
        """eq:predict_crowd, eq:tstar to eq:omegastar.

        Departure from the paper: K_mm is divided by E[s] like K**, which the printed C* omits.
        See test_far_from_all_items_the_prior_returns.
        """
        A, residual = self._projection(items, X_new)
        on = float(self.consensus)
        mean, cov = on * (A @ self.t), on * (A @ self.cov[0] @ A.T + residual / self.s[0])
        if user is None:
            return mean, cov
        known = user < self.n_users_
        for c in range(self.n_components):
            w, w_var = (self.W[c, user], self.W_var[c, user]) if known else (0.0, 1.0 / self.s_w[c])
            v = A @ self.V[c]
            C_v = A @ self.cov[c + 1] @ A.T + residual / self.s[c + 1]
            mean = mean + w * v
            cov = cov + (w_var + w**2) * C_v + w_var * np.outer(v, v)
        return mean, cov

    def _projection(self, items: IntArray, X_new: FloatArray | None) -> Moments:
        """A and the prior residual at these items."""
        if not len(self.locations):
            known = items < self.n_items_
            A = np.zeros((len(items), self.n_items_))
            A[known, items[known]] = 1.0
            return A, np.diag((~known).astype(np.float64))
        X = self.X if X_new is None else np.vstack([self.X, X_new])
        points = self._inducing_points()
        return points.A(X[items]), points.residual(X[items])

    def _inducing_points(self) -> InducingPoints:
        """The inducing points, chosen again after `from_state`."""
        if getattr(self, "_points", None) is None:
            self._points = InducingPoints.choose(self.X, self.item_kernel, self.n_inducing_items, self.random_state)
        assert self._points is not None  # noqa: S101
        return self._points


def _linearise(z: FloatArray, y: FloatArray) -> Moments:
    """Linearise Phi at z: the slope, and the target y - Phi(z) + slope z."""
    slope = np.exp(-0.5 * z**2) / np.sqrt(2.0 * np.pi)
    return slope, y - ndtr(z) + slope * z


def label_noise(y: FloatArray, prior_variance: float) -> FloatArray:
    """Q = p (1 - p), where p is the mean of a Beta with the prior moments of Phi(z), updated with y.

    For z ~ N(0, v) the variance of Phi(z) is arcsin(v / (1 + v)) / (2 pi), exactly.
    """
    spread = np.arcsin(prior_variance / (1.0 + prior_variance)) / (2.0 * np.pi)
    total = 0.25 / spread - 1.0
    p = (y + 0.5 * total) / (1.0 + total)
    return np.asarray(p * (1.0 - p))
