"""The state of the model: the posterior of t, the covariance A of tastes, the scales, and sums over users."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from .arrays import FloatArray, IntArray
from .blocks import Block
from .item_prior import ItemPrior, add_scaled, inverse_of, times
from .likelihood import PROBIT, Response

MEAN_VARIANCE = 1.0  # prior variance of the crowd's mean weight in a component, relative to that of users' weights
FORM_A_ITEMS = 500  # up to this many items, reading entries of a stored A is faster than computing them


def no_vector() -> FloatArray:
    return np.zeros(0)


def no_matrix() -> FloatArray:
    return np.zeros((0, 0))


@dataclass(eq=False)
class Posterior:
    """q(t) = N(t, S_t) under t ~ N(0, C), and p_u ~ N(0, A), A = floor K_A + Psi (A_M - floor I) Psi'.

    C = v_t K + MEAN_VARIANCE Psi (A_M - floor I) Psi': the crowd may share a part of its components.

    Psi (N, M) are the directions, orthonormal relative to K_A, in which A is learned freely; elsewhere it is floor K_A.
    K and K_A differ in the share of the features: texts may explain the consensus and not the tastes.
    """

    prior: ItemPrior  # K
    taste_prior: ItemPrior  # K_A
    n_users: int
    v_t: float = 1.0
    tau: float = 0.5  # variance of tastes outside the directions Psi, without `spread`
    Psi: FloatArray = field(default_factory=no_matrix)  # (N, M)
    A_M: FloatArray = field(default_factory=no_matrix)  # (M, M)
    spread: float = 0.0  # added to tau: uncertainty of the axes of A
    t: FloatArray = field(default_factory=no_vector)
    S_t: FloatArray = field(default_factory=no_matrix)
    H: FloatArray = field(default_factory=no_matrix)
    h: FloatArray = field(default_factory=no_vector)
    consensus: bool = True
    personal: bool = True
    n_supported: int = 0  # components that the scores support
    caution: float = 0.0  # added to the correction of the axes of A for their overfit
    response: Response = PROBIT
    sharpness: FloatArray | None = None  # (U,)
    random_share: float = 0.1  # share of users who answer at random
    crowd_sharpness: float = 1.0  # sharpness of the other users, learned from cross-predictions
    trait_weights: FloatArray | None = None  # (U, M) prior mean of p_u in the directions Psi
    log_det_t: float = 0.0
    scale_sd: float = 0.0  # sd of the log of the common scale of all utilities
    _A: FloatArray | None = None
    _C_inverse: tuple[float, FloatArray, FloatArray] = (1.0, no_matrix(), no_matrix())  # v_t, Q and E when t was solved

    @classmethod
    def start(cls, prior: ItemPrior, n_users: int, consensus: bool = True, personal: bool = True) -> Posterior:
        """Initialise from the prior."""
        N = prior.n_items
        post = cls(prior, prior, n_users, consensus=consensus, personal=personal, H=np.zeros((N, N)), h=np.zeros(N))
        post.Psi, post.tau = np.zeros((N, 0)), 0.5 if personal else 0.0
        post.solve_t()
        return post

    @property
    def floor(self) -> float:
        """The variance of tastes outside the directions Psi."""
        return self.tau + self.spread

    @property
    def taste_variance(self) -> float:
        """The mean variance of tastes per item."""
        if not self.personal:
            return 0.0
        M = self.Psi.shape[1]
        along = (self.Psi @ (self.A_M - self.floor * np.eye(M)) * self.Psi).sum() if M else 0.0
        return self.floor + float(along) / self.n_items

    @property
    def n_items(self) -> int:
        return self.prior.n_items

    @property
    def A(self) -> FloatArray:
        """Prior covariance of the personal part of a user (N, N)."""
        if self._A is None:
            M = self.Psi.shape[1]
            A = self.Psi @ (self.A_M - self.floor * np.eye(M)) @ self.Psi.T
            self._A = add_scaled(0.5 * (A + A.T), self.taste_prior.K, self.floor)
        return self._A

    def personal_prior(self, block: Block) -> FloatArray:
        """D A D' of the users of a block; A itself is not formed where items are many."""
        if self.taste_prior.K.ndim == 2 or self.n_items <= FORM_A_ITEMS:
            return block.prior(self.A)
        G = block.prior(np.full(self.n_items, self.floor))
        if self.Psi.shape[1]:
            Psi = block.at(self.Psi)
            G += Psi @ (self.A_M - self.floor * np.eye(self.Psi.shape[1])) @ Psi.transpose(0, 2, 1)
        return G

    def personal_variance(self, a: IntArray, b: IntArray) -> FloatArray:
        """Prior variance of the personal part of f_a - f_b."""
        if self.Psi.shape[1] and self.n_items <= FORM_A_ITEMS:
            A = self.A
            return np.asarray(A[a, a] + A[b, b] - 2.0 * A[a, b])
        Psi = self.Psi[a] - self.Psi[b]
        inner = self.A_M - self.floor * np.eye(self.Psi.shape[1])
        return np.asarray(self.floor * self.taste_prior.variance(a, b) + ((Psi @ inner) * Psi).sum(axis=1))

    def clear_cache(self) -> None:
        """Drop cached values after tau, A_M or Psi changed."""
        self._A = None

    def forget_tastes(self) -> None:
        """Reset A to tau K, with the spread added to tau."""
        self.Psi, self.A_M, self.trait_weights = self.Psi[:, :0], np.zeros((0, 0)), None
        self.tau, self.spread = self.tau + self.spread, 0.0
        self.clear_cache()

    def raise_floor(self, variance: float) -> None:
        """Add this variance of tastes in every direction."""
        if self.Psi.shape[1]:
            self.tau += variance
            self.A_M = self.A_M + variance * np.eye(len(self.A_M))
            self.clear_cache()

    def remove_spread(self) -> None:
        """Subtract from A the uncertainty of its axes, which was added at the end of a fit."""
        self.A_M = self.A_M - self.spread * np.eye(len(self.A_M))
        self.spread = 0.0
        self.clear_cache()

    def solve_t(self) -> None:
        """S_t = (C^-1 + H)^-1, t = S_t h (eq:S_stochastic with users integrated out)."""
        if not self.consensus:
            self.t, self.S_t, self.log_det_t = np.zeros(self.n_items), np.zeros((self.n_items, self.n_items)), 0.0
            return
        precision = add_scaled(self.H.copy(), self.prior.K_inverse, 1.0 / self.v_t)
        Q, E = self.Psi, self.A_M
        if self.Psi.shape[1]:
            Q, E, _ = self.along_axes()
            precision -= Q @ E @ Q.T
        self.S_t, self.log_det_t = inverse_of(precision)
        self.t = self.S_t @ self.h
        self._C_inverse = self.v_t, Q, E

    def score_covariance(self) -> FloatArray:
        """Covariance of h - H t: H - H S_t H = C^-1 - C^-1 S_t C^-1, at the scales with which t was solved."""
        if self.prior.K.ndim == 2:
            return np.asarray(self.H - self.H.T @ (self.S_t @ self.H))
        v, U, Z = self.score_axes()
        out = add_scaled(self.S_t * (-1.0 / v**2), self.prior.K_inverse, 1.0 / v)
        out += (U @ Z) @ U.T
        return out

    def score_axes(self) -> tuple[float, FloatArray, FloatArray]:
        """v, U and Z with `score_covariance` = I / v - S_t / v^2 + U Z U', where K = I."""
        v, Q, E = self._C_inverse
        T = self.S_t @ Q
        Z = np.block([[-E - E @ (Q.T @ T) @ E, E / v], [E / v, np.zeros_like(E)]])
        return v, np.hstack((Q, T)), Z

    def along_axes(self) -> tuple[FloatArray, FloatArray, float]:
        """Q = K^-1 Psi and E (M, M) with C^-1 = K^-1 / v_t - Q E Q', and log |C| - log |v_t K| (Woodbury)."""
        Q = times(self.prior.K_inverse, self.Psi)
        values, vectors = np.linalg.eigh(self.A_M)
        R = vectors * np.sqrt(MEAN_VARIANCE * np.maximum(values - self.floor, 0.0))
        inner = np.eye(len(values)) + R.T @ (self.Psi.T @ Q) @ R / self.v_t
        return Q, R @ np.linalg.solve(inner, R.T) / self.v_t**2, float(np.linalg.slogdet(inner)[1])

    def times_C_inverse(self, B: FloatArray) -> FloatArray:
        """C^-1 B."""
        out = times(self.prior.K_inverse, B) / self.v_t
        if self.Psi.shape[1]:
            Q, E, _ = self.along_axes()
            out -= Q @ (E @ (Q.T @ B))
        return np.asarray(out)

    def log_evidence_t(self) -> float:
        """The part of log Z that comes from t."""
        if not self.consensus:
            return 0.0
        prior = self.prior.log_det + self.n_items * np.log(self.v_t)
        if self.Psi.shape[1]:
            prior += self.along_axes()[2]
        return float(0.5 * self.h @ self.t - 0.5 * self.log_det_t - 0.5 * prior)

    def prior_variance(self, a: IntArray, b: IntArray) -> FloatArray:
        """Prior variance of z of each pair."""
        personal = self.personal_variance(a, b)
        if not self.consensus:
            return personal
        shared = personal - self.floor * self.taste_prior.variance(a, b)
        return np.asarray(self.v_t * self.prior.variance(a, b) + MEAN_VARIANCE * shared + personal)

    def sharpness_of(self, users: IntArray) -> FloatArray:
        """Sharpness of these users; 1 where reliability is not modelled."""
        return np.ones(len(users)) if self.sharpness is None else np.asarray(self.sharpness[users])

    def trait_weights_of(self, users: IntArray) -> FloatArray | None:
        """Prior mean of p_u of these users in the directions Psi."""
        return None if self.trait_weights is None else np.asarray(self.trait_weights[users])

    def with_items(self, X_new: FloatArray | None, n_new: int) -> Posterior:
        """Return a copy with new, unlabelled items, whose t and tastes are predicted from their features."""
        prior = self.prior.extended(X_new, n_new)
        taste_prior = prior.with_share(self.taste_prior.share)
        N, n = self.n_items, self.n_items + n_new
        H, h, Psi = np.zeros((n, n)), np.zeros(n), np.zeros((n, self.Psi.shape[1]))
        H[:N, :N], h[:N], Psi[:N] = self.H, self.h, self.Psi
        if taste_prior.K.ndim == 2:
            Psi[N:] = taste_prior.K[N:, :N] @ times(self.taste_prior.K_inverse, self.Psi)
        post = replace(self, prior=prior, taste_prior=taste_prior, H=H, h=h, Psi=Psi, _A=None)
        post.solve_t()
        return post

    def add_items(self, X_new: FloatArray | None, n_new: int) -> None:
        """Append new items."""
        grown = self.with_items(X_new, n_new)
        for name in ("prior", "taste_prior", "H", "h", "Psi", "t", "S_t", "log_det_t"):
            setattr(self, name, getattr(grown, name))
        self.clear_cache()

    def add_users(self, n_new: int) -> None:
        """Append new users with average reliability and no known tastes."""
        self.n_users += n_new
        if self.sharpness is not None:
            self.sharpness = np.append(self.sharpness, np.full(n_new, self.sharpness.mean()))
        if self.trait_weights is not None:
            self.trait_weights = np.vstack((self.trait_weights, np.zeros((n_new, self.Psi.shape[1]))))
