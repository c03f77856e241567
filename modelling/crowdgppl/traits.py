"""Worker traits: w_uc = g_c(x_u) + e_uc, a part that follows the traits and a private rest, both learned.

With var g = rho and var e = 1 - rho of the component's prior variance, either part can shrink to nothing. The kernel
is centred over the users, so that g says how they differ: what all weights have in common is no sign that traits
matter. See test_a_taste_that_everybody_shares_is_not_put_down_to_traits. A row of zeros says nothing of its user, who
starts from the prior like everybody in a model without traits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import linalg

from .arrays import BoolArray, FloatArray
from .inducing import ItemSpace, item_space
from .kernels import Kernel
from .users import Users

GRID = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
SPREADS = (0.03, 0.1, 0.2, 0.4, 0.7, 1.0, 1.5, 2.5, 4.0, 7.0)  # of a component's weights, beside its prior variance
SAME = 1e-9  # users whose rows vary by less all have the same traits
MOST_DIRECTIONS = 100  # of the trait kernel, where n_inducing_users does not say
FIRST_ITERATION, EVERY = 4, 2  # traits are looked at from the 4th iteration on, every second one


@dataclass
class Traits:
    """The users' traits in whitened coordinates and what has been learned of g."""

    space: ItemSpace  # rows Phi (U, m): L is about Phi Phi^T
    rho: float
    coefficients: FloatArray  # (m, C): g_c = Phi coefficients_c
    cov: FloatArray  # (C, m, m): posterior covariance of the coefficients
    precision: FloatArray  # (U, C) of each user's w around g, in units of the component's scale
    centre: FloatArray  # (m,) the mean of the rows of the users of the fit
    size: float  # by which centred rows have variance 1 on average

    @classmethod
    def of(cls, X: FloatArray, kernel: Kernel, n_inducing: int | None, C: int, seed: int) -> Traits:
        """Traits of which nothing is known to matter yet."""
        M = MOST_DIRECTIONS if n_inducing is None else n_inducing
        space = item_space(X, len(X), kernel, M, "auto", seed)
        told = told_by(X) if X.any() else np.ones(len(X), dtype=bool)
        m, Phi = space.M, space.dense[told]
        centre, missing = Phi.mean(axis=0), np.maximum(space.own_variances[told] - (Phi * Phi).sum(axis=1), 0.0)
        spread = float((((Phi - centre) ** 2).sum(axis=1) + missing).mean())
        size = 1.0 / np.sqrt(spread) if spread > SAME else 0.0
        return cls(space, 0.0, np.zeros((m, C)), np.zeros((C, m, m)), np.ones((len(X), C)), centre, size)

    def rows(self, X: FloatArray | None = None) -> tuple[FloatArray, FloatArray]:
        """Centred rows of users with these traits (of all known ones for None), and the variance they leave out."""
        Phi = self.space.dense if X is None else self.space.project(X, len(X))
        kernel, given = self.space.kernel, self.space.X if X is None else X
        own = self.space.own_variances if X is None or kernel is None else kernel.diagonal(X)
        missing = np.maximum(own - (Phi * Phi).sum(axis=1), 0.0) * self.size**2
        told = np.ones(len(Phi), dtype=bool) if given is None else told_by(given)
        told = told & (self.size > 0)  # where all who told anything told the same, nobody is like another
        return np.where(told[:, None], (Phi - self.centre) * self.size, 0.0), np.where(told, missing, 1.0)

    def copy(self) -> Traits:
        """The same traits, independent of these."""
        learned = {name: getattr(self, name).copy() for name in ("coefficients", "cov", "precision")}
        return replace(self, **learned)

    def grown(self, X_new: FloatArray) -> Traits:
        """With the traits of new users; the directions stay."""
        _, variance = self.expect(X_new, np.ones(self.precision.shape[1]))
        space = self.space.extended(X_new, len(X_new), room=0)
        return replace(self, space=space, precision=np.vstack((self.precision, 1.0 / variance)))

    def rescale(self, k: FloatArray) -> None:
        """w_c -> w_c / k_c."""
        self.coefficients /= k
        self.cov /= (k * k)[:, None, None]

    def expect(self, X: FloatArray | None, total: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Prior mean and variance (n, C) of the weights of users with these traits; of all known ones for None."""
        Phi, missing = self.rows(X)
        spread = np.stack([((Phi @ S) * Phi).sum(axis=1) for S in self.cov], axis=1)
        variance = (1.0 - self.rho + self.rho * missing)[:, None] / total + spread
        return Phi @ self.coefficients, variance


def told_by(X: FloatArray) -> BoolArray:
    """Which users told anything: a row of zeros says nothing."""
    return np.asarray((X != 0.0).any(axis=1))


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


def spread_of(value: FloatArray, unit: FloatArray, seen: BoolArray) -> float:
    """The variance of a component's weights with the most evidence in what the labels say, nobody like another.

    It is held while shares are compared: a component that is hardly used has smaller weights than its prior expects,
    and would otherwise count as a sign that users are alike. See test_traits_that_do_not_matter_do_no_harm.
    """
    noise = 1.0 / unit[seen]
    variances = np.asarray(SPREADS)[:, None] + noise
    return SPREADS[int(np.argmax(-0.5 * (value[seen] ** 2 / variances + np.log(variances)).sum(axis=1)))]


def learn_traits(traits: Traits, users: Users, s_w: FloatArray, total: FloatArray) -> None:
    """The share rho with the most evidence over all components, and g given it; the users' prior follows.

    `total` (C,) is the prior precision of a whole weight, `s_w` (U, C) its present precision around g.
    """
    Phi, missing = traits.rows()
    precision, linear = messages(users, s_w)
    seen = precision > 1e-9 * s_w
    unit = np.where(seen, precision / total, 1.0)  # in units of the component's scale: total prior variance 1
    value = np.where(seen, linear / np.where(seen, precision, 1.0), 0.0) * np.sqrt(total)

    def parts(rho: float, c: int, spread: float = 1.0) -> tuple[FloatArray, FloatArray, FloatArray]:
        own, labels = 1.0 - rho + rho * missing, spread * unit[:, c]
        weight = np.where(seen[:, c], labels / (1.0 + own * labels), 0.0)
        return np.where(seen[:, c], own + 1.0 / labels, 1.0), weight, value[:, c] / np.sqrt(spread)

    components = range(users.W.shape[1])
    spreads = [spread_of(value[:, c], unit[:, c], seen[:, c]) for c in components]
    evidence = [sum(log_evidence(Phi, rho, *parts(rho, c, spreads[c])) for c in components) for rho in GRID]
    traits.rho = GRID[int(np.argmax(evidence))]
    for c in components:
        _, weight, _ = parts(traits.rho, c)
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
    traits.precision[:, c] = 1.0 / (1.0 - rho + spread)
