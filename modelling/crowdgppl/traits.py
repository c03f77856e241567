"""Worker traits: w_uc = g_c(x_u) + e_uc, a part that follows the traits and a private rest, both learned.

With var g = rho and var e = 1 - rho of the component's prior variance, either part can shrink to nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from .arrays import FloatArray
from .inducing import ItemSpace, item_space
from .kernels import Kernel
from .users import Users

GRID = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
MOST_DIRECTIONS = 100  # of the trait kernel, where n_inducing_users does not say
FIRST_ITERATION, EVERY = 4, 2  # traits are looked at from the 4th iteration on, every second one


@dataclass
class Traits:
    """The users' traits in whitened coordinates and what has been learned of g."""

    space: ItemSpace  # rows Phi (U, m): L is about Phi Phi^T
    rho: float
    coefficients: FloatArray  # (m, C): g_c = Phi coefficients_c
    cov: FloatArray  # (C, m, m): posterior covariance of the coefficients
    precision: FloatArray  # (C,) of w around g, in units of the component's scale

    @classmethod
    def of(cls, X: FloatArray, kernel: Kernel, n_inducing: int | None, C: int, seed: int) -> Traits:
        """Traits of which nothing is known to matter yet."""
        M = MOST_DIRECTIONS if n_inducing is None else n_inducing
        space = item_space(X, len(X), kernel, M, "auto", seed)
        m = space.M
        return cls(space, 0.0, np.zeros((m, C)), np.zeros((C, m, m)), np.ones(C))

    def copy(self) -> Traits:
        """The same traits, independent of these."""
        return Traits(self.space, self.rho, self.coefficients.copy(), self.cov.copy(), self.precision.copy())

    def grown(self, X_new: FloatArray) -> Traits:
        """With the traits of new users; the directions stay."""
        space = self.space.extended(X_new, len(X_new), room=0)
        return Traits(space, self.rho, self.coefficients, self.cov, self.precision)

    def rescale(self, k: FloatArray) -> None:
        """w_c -> w_c / k_c."""
        self.coefficients /= k
        self.cov /= (k * k)[:, None, None]

    def expect(self, X: FloatArray | None, total: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Prior mean and variance (n, C) of the weights of users with these traits; of all known ones for None."""
        Phi = self.space.dense if X is None else self.space.project(X, len(X))
        kernel = self.space.kernel
        own = self.space.own_variances if X is None or kernel is None else kernel.diagonal(X)
        missing = np.maximum(own - (Phi * Phi).sum(axis=1), 0.0)
        spread = np.stack([((Phi @ S) * Phi).sum(axis=1) for S in self.cov], axis=1)
        variance = (1.0 - self.rho + self.rho * missing)[:, None] / total + spread
        return Phi @ self.coefficients, variance


def messages(users: Users, s_w: FloatArray) -> tuple[FloatArray, FloatArray]:
    """What the labels alone say of each weight: precision (U, C), and precision times value."""
    marginal = 1.0 / users.variances
    precision = np.maximum(marginal - s_w, 0.0)
    return precision, users.W * marginal - s_w * users.g


def log_evidence(Phi: FloatArray, rho: float, noise: FloatArray, weight: FloatArray, value: FloatArray) -> float:
    """ln N(o; 0, rho Phi Phi^T + noise) where labels say something, up to what does not depend on rho."""
    P = np.eye(Phi.shape[1]) + rho * Phi.T @ (weight[:, None] * Phi)
    factor = linalg.cholesky(P, lower=True)
    seen = weight > 0
    o = value[seen]
    inner = linalg.solve_triangular(factor, Phi[seen].T @ (weight[seen] * o), lower=True)
    fit = (weight[seen] * o * o).sum() - rho * (inner @ inner)
    return float(-0.5 * (fit + 2.0 * np.log(factor.diagonal()).sum() + np.log(noise[seen]).sum()))


def learn_traits(traits: Traits, users: Users, s_w: FloatArray, total: FloatArray) -> None:
    """The share rho with the most evidence over all components, and g given it; the users' prior follows.

    `total` (C,) is the prior precision of a whole weight, `s_w` its present precision around g.
    """
    Phi = traits.space.dense
    precision, linear = messages(users, s_w)
    unit = precision / total  # in units of the component's scale: total prior variance 1
    seen = precision > 1e-9 * s_w
    value = np.where(seen, linear / np.where(seen, precision, 1.0), 0.0) * np.sqrt(total)
    missing = np.maximum(traits.space.own_variances - (Phi * Phi).sum(axis=1), 0.0)

    def parts(rho: float, c: int) -> tuple[FloatArray, FloatArray]:
        own = 1.0 - rho + rho * missing
        weight = np.where(seen[:, c], unit[:, c] / (1.0 + own * unit[:, c]), 0.0)
        return np.where(seen[:, c], own + 1.0 / np.where(seen[:, c], unit[:, c], 1.0), 1.0), weight

    components = range(users.W.shape[1])
    evidence = [sum(log_evidence(Phi, rho, *parts(rho, c), value[:, c]) for c in components) for rho in GRID]
    traits.rho = GRID[int(np.argmax(evidence))]
    for c in components:
        _, weight = parts(traits.rho, c)
        settle_component(traits, c, Phi, weight, value[:, c], missing, float(total[c]))
    users.g[:] = Phi @ traits.coefficients


def settle_component(
    traits: Traits, c: int, Phi: FloatArray, weight: FloatArray, value: FloatArray, missing: FloatArray, total: float
) -> None:
    """g_c given rho, and how precisely a user's weight is known around it."""
    rho = traits.rho
    P = np.eye(Phi.shape[1]) + rho * Phi.T @ (weight[:, None] * Phi)
    factor = linalg.cho_factor(P, lower=True)
    cov = rho * linalg.cho_solve(factor, np.eye(Phi.shape[1]))
    traits.coefficients[:, c] = cov @ (Phi.T @ (weight * value)) / np.sqrt(total)
    traits.cov[c] = cov / total
    spread = ((Phi @ cov) * Phi).sum(axis=1) + rho * missing
    traits.precision[c] = 1.0 / (1.0 - rho + spread.mean())
