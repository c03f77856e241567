"""f_u = t + sum_c v_c w_c(u) with variational factors at inducing points: shared by `paper_svi` and `collab_gp`.

Equations are named by the labels in the LaTeX source of the paper; docs/model.md lists them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from modelling.baselines.base import Baseline, Moments, NewRows
from modelling.baselines.sparse_gp import USER_JITTER, GammaScale, IndependentGP, InducedGP, InducingPoints
from modelling.crowdgppl.arrays import FloatArray, IntArray
from modelling.crowdgppl.kernels import Kernel, Matern32
from modelling.crowdgppl.labels import PairwiseLabels

Gamma = tuple[float, float]
CHUNK = 20_000  # labels whose variances are computed at once


@dataclass
class Batch:
    """Some labels with everything that stays fixed while the factors are updated."""

    u: IntArray
    y: FloatArray
    weight: FloatArray
    rows: FloatArray  # (P_i, M) A_a - A_b
    residual: FloatArray  # (P_i,) prior residual of the variance of v_a - v_b, for s = 1
    t: FloatArray  # (P_i,) E[t_a - t_b], updated as the factors move
    dv: FloatArray  # (P_i, C) E[v_ca - v_cb]
    w: FloatArray  # (P_i, C) E[w_cu]

    @property
    def z(self) -> FloatArray:
        """E[z] of each label (eq:vw_plus_t)."""
        return np.asarray(self.t + np.sum(self.dv * self.w, axis=1))


@dataclass
class GaussianTerms:
    """The labels' Gaussian terms for z, exp(shift z - precision z^2 / 2), one for each label."""

    precision: FloatArray
    shift: FloatArray


class FactorModel(Baseline):
    """The structure, coordinate updates and predictions; subclasses define how labels become Gaussian terms."""

    FITTED: ClassVar = ("t", "V", "W", "W_var", "cov", "s", "X", "Z", "s_w", "w_mean", "w_cov", "labelled_users")
    consensus: bool
    n_components: int
    n_feature_components: int | None
    n_inducing_items: int | None
    n_inducing_users: int | None
    random_state: int
    t_prior: Gamma
    v_prior: Gamma
    w_prior: Gamma
    t: FloatArray  # (M,) means at the inducing items
    V: FloatArray  # (C, M)
    cov: FloatArray  # (C + 1, M, M) of t and each v_c
    s: FloatArray  # (C + 1,) E[s] of t and each v_c
    W: FloatArray  # (C, U)
    W_var: FloatArray  # (C, U)
    s_w: FloatArray  # (C,)
    w_mean: FloatArray  # (F, M_users) of the components with user features
    w_cov: FloatArray  # (F, M_users, M_users)
    X: FloatArray  # (N, D), no columns without features
    Z: FloatArray  # (U, E), no columns without features
    labelled_users: IntArray

    def _set_kernels(self, item_kernel: Kernel | None, user_kernel: Kernel | None) -> None:
        self.item_kernel = Matern32() if item_kernel is None else item_kernel
        self.user_kernel = Matern32() if user_kernel is None else user_kernel

    def _set_up(
        self, rng: np.random.Generator, labels: PairwiseLabels, X_items: FloatArray | None, X_users: FloatArray | None
    ) -> None:
        """Start all factors at their priors, except w.

        Departure from the paper: with v and w both at their prior means neither ever moves, so w starts at random and
        the item factors are updated first.
        See test_prior_means_are_a_saddle.
        """
        self.X = np.zeros((self.n_items_, 0)) if X_items is None else X_items
        self.Z = np.zeros((self.n_users_, 0)) if X_users is None else X_users
        self.labelled_users = np.unique(labels.u)
        self._points: InducingPoints | None = None
        self._user_points: InducingPoints | None = None
        self._project()
        items, users = self._item_points(), self._inducing_users()
        K_mm_inv = np.eye(self.n_items_) if items is None else items.K_mm_inv
        self._t = InducedGP(K_mm_inv, GammaScale(*self.t_prior))
        self._v = [InducedGP(K_mm_inv, GammaScale(*self.v_prior)) for _ in range(self.n_components)]
        self._w: list[InducedGP | IndependentGP] = []
        if users is not None:
            half = (self.n_components + 1) // 2
            features = half if self.n_feature_components is None else self.n_feature_components
            self._w += [InducedGP(users.K_mm_inv, GammaScale(*self.w_prior)) for _ in range(features)]
        rest = self.n_components - len(self._w)
        self._w += [IndependentGP(self.n_users_, GammaScale(*self.w_prior)) for _ in range(rest)]
        for w_c in self._w:
            w_c.start_at(rng.standard_normal(len(w_c.shift)))

    def _project(self) -> None:
        """Compute the projections from the inducing points to all items and users."""
        items, users = self._item_points(), self._inducing_users()
        self.A = np.eye(self.n_items_) if items is None else items.A(self.X)
        if users is not None:
            self._A_w, self._user_residual = users.A(self.Z), users.residual_diagonal(self.Z)

    def _batch(self, labels: PairwiseLabels, rows: IntArray) -> Batch:
        u, a, b = labels.u[rows], labels.a[rows], labels.b[rows]
        points, D = self._item_points(), self.A[a] - self.A[b]
        residual = np.zeros(len(rows)) if points is None else points.residual_differences(self.X[a], self.X[b])
        V = np.array([v_c.mean for v_c in self._v]).reshape(self.n_components, D.shape[1])
        w = np.array([self._weights_of(c, u)[0] for c in range(self.n_components)]).reshape(self.n_components, len(u))
        return Batch(u, labels.y[rows], labels.weights[rows], D, residual, D @ self._t.mean, D @ V.T, w.T.copy())

    # Coordinate updates

    def _consensus_step(self, batch: Batch, terms: GaussianTerms, rho: float) -> None:
        """Update t (eq:St, eq:hatt)."""
        others = batch.z - batch.t
        self._t.step(batch.rows, terms.precision, terms.shift - terms.precision * others, rho)
        batch.t = batch.rows @ self._t.mean

    def _item_step(self, c: int, batch: Batch, terms: GaussianTerms, rho: float) -> None:
        """Update each v_c (eq:Sv, eq:hatv)."""
        w_hat, w_var = self._weights_of(c, batch.u)
        others = batch.z - w_hat * batch.dv[:, c]
        precision, shift = terms.precision * (w_hat**2 + w_var), w_hat * (terms.shift - terms.precision * others)
        self._v[c].step(batch.rows, precision, shift, rho)
        batch.dv[:, c] = batch.rows @ self._v[c].mean

    def _user_step(self, c: int, batch: Batch, terms: GaussianTerms, rho: float) -> None:
        """Update each w_c (eq:Sigma, eq:what)."""
        w_c, dv = self._w[c], batch.dv[:, c]
        others = batch.z - batch.w[:, c] * dv
        precision = terms.precision * (dv**2 + self._difference_variance(c, batch))
        shift = dv * (terms.shift - terms.precision * others)
        if isinstance(w_c, InducedGP):
            w_c.step(self._A_w[batch.u], precision, shift, rho)
        else:
            w_c.step_points(batch.u, precision, shift, rho)
        batch.w[:, c] = self._weights_of(c, batch.u)[0]

    def _difference_variance(self, c: int, batch: Batch) -> FloatArray:
        """Variance of v_ca - v_cb for each label."""
        v_c = self._v[c]
        return np.asarray(np.sum((batch.rows @ v_c.cov) * batch.rows, axis=1) + batch.residual / v_c.scale.mean)

    def _weights_of(self, c: int, u: IntArray) -> Moments:
        """Mean and variance of w_c for these users (eq:omegastar)."""
        w_c = self._w[c]
        if isinstance(w_c, IndependentGP):
            return w_c.mean[u], w_c.variance[u]
        rows = self._A_w[u]
        variance = np.sum((rows @ w_c.cov) * rows, axis=1) + self._user_residual[u] / w_c.scale.mean
        return rows @ w_c.mean, np.asarray(variance)

    def _store_moments(self) -> None:
        """Store the moments that predictions need as arrays."""
        factors, C = (self._t, *self._v), self.n_components
        self.t, self.s = self._t.mean, np.array([factor.scale.mean for factor in factors])
        self.V = np.array([v_c.mean for v_c in self._v]).reshape(C, len(self.t))
        self.cov = np.array([factor.cov for factor in factors])
        everyone = np.arange(self.n_users_)
        moments = [self._weights_of(c, everyone) for c in range(C)]
        self.W = np.array([mean for mean, _ in moments]).reshape(C, self.n_users_)
        self.W_var = np.array([variance for _, variance in moments]).reshape(C, self.n_users_)
        self.s_w = np.array([w_c.scale.mean for w_c in self._w])
        induced = [w_c for w_c in self._w if isinstance(w_c, InducedGP)]
        self.w_mean = np.array([w_c.mean for w_c in induced])
        self.w_cov = np.array([w_c.cov for w_c in induced])

    # Predictions

    @property
    def component_variances_(self) -> FloatArray:
        """(C,) the paper's 1 / (E[s_v] E[s_w]), descending."""
        return np.asarray(self._variances[self._by_variance])

    @property
    def item_components_(self) -> FloatArray:
        """(C, N) posterior mean of each v_c at the items, scaled so that users' weights have variance 1."""
        v = self.V @ self._projection(np.arange(self.n_items_), NewRows())[0].T
        return np.asarray((v / np.sqrt(self.s_w)[:, None])[self._by_variance])

    @property
    def _variances(self) -> FloatArray:
        return np.asarray(1.0 / (self.s[1:] * self.s_w))

    @property
    def _by_variance(self) -> IntArray:
        """The components in order of decreasing variance."""
        return np.argsort(-self._variances, kind="stable")

    def _moments(self, user: int | None, items: IntArray, new: NewRows) -> Moments:
        """Predict the mean and covariance of utilities (eq:predict_crowd, eq:tstar to eq:omegastar).

        Departure from the paper: K_mm is divided by E[s] like K**, which the printed C* omits.
        See test_far_from_all_items_the_prior_returns.
        """
        A, residual = self._projection(items, new)
        on = float(self.consensus)
        mean, cov = on * (A @ self.t), on * (A @ self.cov[0] @ A.T + residual / self.s[0])
        if user is None and self.consensus:
            return mean, cov
        w, w_var = self._user_weights(user, new)
        for c in range(self.n_components):
            v = A @ self.V[c]
            C_v = A @ self.cov[c + 1] @ A.T + residual / self.s[c + 1]
            mean = mean + w[c] * v
            cov = cov + (w_var[c] + w[c] ** 2) * C_v + w_var[c] * np.outer(v, v)
        return mean, cov

    def _means(self, users: IntArray, items: IntArray, new: NewRows) -> FloatArray:
        """F* of eq:predict_crowd for all users at once."""
        A, _ = self._projection(items, new)
        w = np.array([self._user_weights(int(user), new)[0] for user in users]).reshape(len(users), self.n_components)
        return np.asarray(float(self.consensus) * (A @ self.t)[:, None] + A @ self.V.T @ w.T)

    def _differences(self, users: IntArray, a: IntArray, b: IntArray, new: NewRows) -> Moments:
        """Moments of z for all labels, computed in chunks."""
        parts = [slice(start, start + CHUNK) for start in range(0, len(users), CHUNK)]
        found = [self._difference_moments(users[part], a[part], b[part], new) for part in parts]
        mean, variance = zip(*found, strict=True) if found else ((), ())
        return np.concatenate([np.zeros(0), *mean]), np.concatenate([np.zeros(0), *variance])

    def _difference_moments(self, users: IntArray, a: IntArray, b: IntArray, new: NewRows) -> Moments:
        used, positions = np.unique(np.concatenate([a, b]), return_inverse=True)
        i, j = positions[: len(a)], positions[len(a) :]
        A, residual = self._projection(used, new)
        D, left = A[i] - A[j], residual[i, i] + residual[j, j] - 2.0 * residual[i, j]
        who, at = np.unique(users, return_inverse=True)
        weights = [self._user_weights(int(user), new) for user in who]
        w, w_var = (np.array([each[k] for each in weights]).reshape(len(who), self.n_components)[at] for k in (0, 1))
        on = float(self.consensus)
        variance = on * (np.sum((D @ self.cov[0]) * D, axis=1) + left / self.s[0])
        dv = D @ self.V.T
        for c in range(self.n_components):
            C_v = np.sum((D @ self.cov[c + 1]) * D, axis=1) + left / self.s[c + 1]
            variance = variance + (w_var[:, c] + w[:, c] ** 2) * C_v + w_var[:, c] * dv[:, c] ** 2
        return on * (D @ self.t) + np.sum(w * dv, axis=1), np.maximum(variance, 0.0)

    def _user_weights(self, user: int | None, new: NewRows) -> Moments:
        """Mean and variance (C,) of a user's weights; for None, of the mean over the users with labels."""
        if user is None:
            known = self.labelled_users
            return self.W[:, known].mean(axis=1), self.W_var[:, known].mean(axis=1) / len(known)
        if user < self.n_users_:
            return self.W[:, user], self.W_var[:, user]
        w, w_var = np.zeros(self.n_components), 1.0 / self.s_w
        points, row = self._inducing_users(), user - self.n_users_
        if new.users is not None and points is not None and row < len(new.users):
            x = new.users[row : row + 1]
            A, F = points.A(x)[0], len(self.w_mean)
            w[:F] = self.w_mean @ A
            w_var[:F] = np.einsum("m,cmn,n->c", A, self.w_cov, A) + points.residual_diagonal(x)[0] / self.s_w[:F]
        return w, w_var

    def _projection(self, items: IntArray, new: NewRows) -> Moments:
        """The projection A from the inducing items to these items, and the prior variance it leaves unexplained."""
        points = self._item_points()
        if points is None:
            known = items < self.n_items_
            A = np.zeros((len(items), self.n_items_))
            A[known, items[known]] = 1.0
            return A, np.diag((~known).astype(np.float64))
        X = self.X if new.items is None else np.vstack([self.X, new.items])
        return points.A(X[items]), points.residual(X[items])

    def _item_points(self) -> InducingPoints | None:
        """The inducing items, chosen again after `from_state`; None where items are independent."""
        if self.X.shape[1] and getattr(self, "_points", None) is None:
            self._points = InducingPoints.choose(self.X, self.item_kernel, self.n_inducing_items, self.random_state)
        return getattr(self, "_points", None)

    def _inducing_users(self) -> InducingPoints | None:
        """The inducing users, chosen again after `from_state`; None without user features."""
        if self.Z.shape[1] and getattr(self, "_user_points", None) is None:
            self._user_points = InducingPoints.choose(
                self.Z, self.user_kernel, self.n_inducing_users, self.random_state, USER_JITTER
            )
        return getattr(self, "_user_points", None)
