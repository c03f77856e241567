"""The local step: users are integrated out exactly, given the sites of their labels and q(t).

In block coordinates (`blocks.py`; D maps utilities of all items to them) let G = D A D' be the prior covariance of a
user's personal part p_u, W the precision and r the shift of the user's sites. One small inverse gives everything:

    J = (I + W G)^-1 W          precision about D t with p_u integrated out
    h = (I + W G)^-1 r          shift about D t
    alpha = h - J D t           p_u given t has mean A D' alpha
    R = (I + G W)^-1            covariance of D (t + p_u): R Y R' + R G, with Y = D S_t D'

The evidence Z of the labels has d log Z / dA = sum_u D' (alpha alpha' + J Y J - J) D / 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from .arrays import FloatArray
from .blocks import Block, blocks_of
from .labels import UserBatch
from .likelihood import (
    MIN_VARIANCE,
    Response,
    cavity,
    expected_lapses,
    log_site_integral,
    margin_gradient,
    matched_site,
    tilted_moments,
)
from .posterior import Posterior

SAMPLED_USERS = 400  # users whose information about the directions is stored: enough to estimate its mean
SUMS = ("n_users", "n_people", "H", "h", "excess", "gradient_tau", "fisher_tau", "gradient_A")  # sums in Statistics
FIRST_PRECISION = 0.3  # precision of a new site, about that of a label with z near 0


@dataclass(eq=False)
class UserSolution:
    """One block of users with p_u integrated out and t left open."""

    block: Block
    G: FloatArray  # (B, q, q)
    R_t: FloatArray  # R transposed
    J: FloatArray
    W: FloatArray  # (B, q) diagonal of the precision of the sites, or the matrix (B, q, q)
    r: FloatArray  # (B, q) shift of the sites
    h: FloatArray  # (B, q)


@dataclass(eq=False)
class Statistics:
    """Sums over users: all that the global step needs."""

    n_users: float
    n_people: float  # n_users before users were split
    H: FloatArray  # (N, N) sum of D' J D
    h: FloatArray  # (N,) sum of D' h
    excess: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))  # (N, N) 2 d log Z / dA
    gradient_tau: FloatArray = field(default_factory=lambda: np.zeros(0))  # (k,) tr(K_i d log Z / dA), see `kernels`
    fisher_tau: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))  # (k, k)
    gradient_A: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))  # (M, M) Psi' excess Psi
    J_users: FloatArray = field(default_factory=lambda: np.zeros((0, 0, 0)))  # (sampled users, M, M) Psi' D' J D Psi

    def times(self, scale: float) -> Statistics:
        """Estimate the sums over `scale` times as many users."""
        return replace(self, **{name: scale * getattr(self, name) for name in SUMS})

    def plus(self, other: Statistics, sampled: int) -> Statistics:
        """The sums over the users of both, with the information of about `sampled` users of the other."""
        found = {name: getattr(other, name) + (getattr(self, name) if self.n_users else 0.0) for name in SUMS}
        some = other.J_users[:: max(1, len(other.J_users) // sampled)]
        return Statistics(**found, J_users=np.concatenate((self.J_users, some)) if len(self.J_users) else some)

    @classmethod
    def total(cls, parts: Sequence[Statistics]) -> Statistics:
        """The sums over the users of all parts."""
        sums = {name: sum(getattr(part, name) for part in parts) for name in SUMS}
        return cls(**sums, J_users=np.concatenate([part.J_users for part in parts]))


class Visit:
    """The state of a local step: some users, their labels and sites."""

    def __init__(
        self, batch: UserBatch, post: Posterior, largest: int | None = None, sampled: int = SAMPLED_USERS
    ) -> None:
        """Prepare a visit; to save time, blocks larger than `largest` are split as if they were several users."""
        self.batch = batch
        self.groups = batch.split_into(1 if not post.personal else largest, post.n_items)
        self.blocks = blocks_of(self.groups, post.n_items)
        every = -(-len(self.groups.users) // sampled)  # whatever the number of their labels
        self.sampled_users = [np.flatnonzero(block.users % every == 0) for block in self.blocks]
        self.sharpness = post.sharpness_of(batch.users)[batch.row]
        self.trait_weights = post.trait_weights_of(self.groups.users)  # (B, M) prior mean of p_u in Psi, or None
        new = batch.new_labels()
        if new.any():
            batch.lam = np.where(new, FIRST_PRECISION * batch.weight, batch.lam)
            batch.eta = np.where(new, 2.0 * FIRST_PRECISION * batch.weight * (batch.y - 0.5), batch.eta)
        self.solutions: list[UserSolution] = []
        self.m, self.v = np.zeros(len(batch)), np.ones(len(batch))
        self.response = post.response
        self.prior_variance = np.zeros(0)  # of each z when the sites were last updated
        self.K_blocks, self.K_of = list[list[FloatArray]](), list[FloatArray]()

    def integrate_users(self, post: Posterior) -> Statistics:
        """Integrate p_u out of every user; return H and h for the step of t."""
        N = post.n_items
        n_people = int((self.batch.counts > 0).sum())
        stats = Statistics(sum(len(block.users) for block in self.blocks), n_people, np.zeros((N, N)), np.zeros(N))
        lam, eta = np.append(self.batch.lam, 0.0), np.append(self.batch.eta, 0.0)
        self.solutions = []
        for block in self.blocks:
            G = post.personal_prior(block)
            W, r = block.information(lam, eta)
            R_t, J = invert(G, W)
            h = times_vector(R_t, r)
            if self.trait_weights is not None:
                h = h - times_vector(J, self.trait_means(block, post))
            self.solutions.append(UserSolution(block, G, R_t, J, W, r, h))
            block.add_matrix(stats.H, J)
            block.add_rows(stats.h, h)
        stats.H = 0.5 * (stats.H + stats.H.T)
        return stats

    def refresh_sites(self, post: Posterior, steps: int, damping: float) -> Statistics:
        """Update the sites a few times at the current q(t); return H and h of the sites before."""
        before = self.integrate_users(post)
        for step in range(steps):
            if step:
                self.integrate_users(post)
            self.find_marginals(post)
            self.update_sites(damping)
        return before

    def trait_means(self, block: Block, post: Posterior) -> FloatArray:
        """Prior mean of D p_u from the users' traits (B, q)."""
        assert self.trait_weights is not None  # noqa: S101
        return times_vector(block.at(post.Psi), self.trait_weights[block.users])

    def alpha(self, solution: UserSolution, post: Posterior) -> FloatArray:
        """alpha of these users given the mean of t."""
        return np.asarray(solution.h - times_vector(solution.J, solution.block.at(post.t)))

    def find_marginals(self, post: Posterior, stats: Statistics | None = None) -> None:
        """Compute moments of z of every label given q(t), and the cavities; add gradients of the evidence to stats."""
        P = len(self.batch)
        self.response = post.response
        m, v = np.zeros(P + 1), np.ones(P + 1)
        learned = stats is not None and post.personal
        excess = np.zeros_like(post.S_t) if learned else post.S_t[:0]
        for solution in self.solutions:
            block, J = solution.block, solution.J
            alpha = self.alpha(solution, post)
            YR = block.prior(post.S_t) @ solution.R_t
            mean = block.at(post.t) + times_vector(solution.G, alpha)
            if self.trait_weights is not None:
                mean += self.trait_means(block, post)
            if learned:
                change = times_precision(J @ YR, solution.W)  # J Y J
                change -= J
                change += alpha[:, :, None] * alpha[:, None, :]
                block.add_matrix(excess, change)
            YR += solution.G
            rows = block.rows.ravel()
            m[rows], v[rows] = block.at_labels(mean, solution.R_t, YR)
        self.m, self.v = m[:P], np.maximum(v[:P], MIN_VARIANCE)
        self.cavity_m, self.cavity_v = cavity(self.m, self.v, self.batch.lam, self.batch.eta)
        if stats is not None and learned:
            stats.excess = 0.5 * (excess + excess.T)
            self.add_information(post, stats)

    def add_information(self, post: Posterior, stats: Statistics) -> None:
        """Add the gradients of the evidence in the scales of tastes and in A, with Fisher's information.

        The information is that of a sample of the users, because it decides only how far steps go.
        """
        Ks, M = kernels(post), post.Psi.shape[1]
        traces = [(np.diagonal(stats.excess) @ K) if K.ndim == 1 else (stats.excess * K).sum() for K in Ks]
        stats.gradient_tau = 0.5 * np.array(traces)
        stats.gradient_A = post.Psi.T @ stats.excess @ post.Psi
        stats.fisher_tau = np.zeros((len(Ks), len(Ks)))
        J_users, n_sampled = list[FloatArray](), 0
        for solution, users, K_users in zip(self.solutions, self.sampled_users, self.prior_blocks(Ks), strict=True):
            J = solution.J[users]
            JK = [J @ K for K in K_users]
            stats.fisher_tau += 0.5 * np.array([[trace_of(one, other) for other in JK] for one in JK])
            n_sampled += len(J)
            if M:
                Psi = solution.block.at(post.Psi, users)
                J_users.append(Psi.transpose(0, 2, 1) @ (J @ Psi))
        stats.fisher_tau *= sum(len(block.users) for block in self.blocks) / max(n_sampled, 1)
        if J_users:
            stats.J_users = np.concatenate(J_users)

    def prior_blocks(self, kernels: list[FloatArray]) -> list[list[FloatArray]]:
        """D K_i D' of the sampled users of each block for each of the `kernels`."""
        if len(kernels) != len(self.K_of) or kernels[0] is not self.K_of[0]:
            pairs = zip(self.blocks, self.sampled_users, strict=True)
            self.K_of, self.K_blocks = kernels, [[block.prior(K)[users] for K in kernels] for block, users in pairs]
        return self.K_blocks

    def log_evidence(self) -> float:
        """Log evidence of the labels of these users, without the part of t, at the current sites and cavities."""
        a, batch = self.sharpness, self.batch
        log_z, _, _ = tilted_moments(self.cavity_m * a, self.cavity_v * a**2, batch.y, batch.weight, self.response)
        of_sites = log_site_integral(self.cavity_m, self.cavity_v, batch.lam, batch.eta)
        return self.site_evidence() + float((log_z - of_sites).sum())

    def site_evidence(self) -> float:
        """Log evidence of the sites as observations of z, up to terms of each label."""
        total = 0.0
        for solution in self.solutions:
            r, G, R_t = solution.r, solution.G, solution.R_t
            total += 0.5 * float((r * times_vector(G, times_vector(R_t, r))).sum() + np.linalg.slogdet(R_t)[1].sum())
        return total

    def update_sites(self, damping: float, ratio: FloatArray | float = 1.0) -> None:
        """Match each label's moments under its cavity.

        `ratio` of new to old prior variance of z transports the cavity after a step of the hyperparameters.
        """
        m, v = self.cavity_m * np.sqrt(ratio), self.cavity_v * ratio
        lam, eta = matched_site(m, v, self.batch.y, self.batch.weight, self.sharpness, self.response)
        self.batch.lam = (1.0 - damping) * self.batch.lam + damping * lam
        self.batch.eta = (1.0 - damping) * self.batch.eta + damping * eta

    def response_statistics(self, response: Response) -> FloatArray:
        """Gradient of the evidence in the margin of ties and the sum of its squares; expected lapses and answers."""
        m, v = self.cavity_m * self.sharpness, self.cavity_v * self.sharpness**2
        given = m, v, self.batch.y, self.batch.weight, response
        return np.array([*margin_gradient(*given), *expected_lapses(*given)])

    def scores(self, post: Posterior) -> FloatArray:
        """D' alpha of each user (B, N)."""
        out = np.zeros((len(self.groups.users), post.n_items))
        for solution in self.solutions:
            solution.block.add_user_rows(out, self.alpha(solution, post))
        return out

    def expected_scores(self, post: Posterior) -> FloatArray:
        """The sum over users of D' (J - J Y J) D: what D' alpha alpha' D is expected to be."""
        out = np.zeros((post.n_items, post.n_items))
        for solution in self.solutions:
            J = solution.J
            solution.block.add_matrix(out, J - J @ solution.block.prior(post.S_t) @ J)
        return 0.5 * (out + out.T)

    def excess(self, post: Posterior, expected: FloatArray | None = None) -> FloatArray:
        """The sum over users of D' (alpha alpha' + J Y J - J) D: twice the gradient of the evidence in A."""
        Z = self.scores(post)
        return np.asarray(Z.T @ Z - (self.expected_scores(post) if expected is None else expected))


def kernels(post: Posterior) -> list[FloatArray]:
    """The matrices whose scales in A are learned: K_features and I while A = tau K_A, later K_A."""
    prior = post.taste_prior
    if prior.K_features is None or post.Psi.shape[1]:
        return [prior.K]
    return [prior.K_features, np.ones(post.n_items)]


def invert(G: FloatArray, W: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(I + W G)^-1 and J = (I + W G)^-1 W; W is a matrix, or a diagonal in label space."""
    q = G.shape[1]
    B = (W[:, :, None] * G) if W.ndim == 2 else W @ G
    B[:, np.arange(q), np.arange(q)] += 1.0
    R_t = np.asarray(np.linalg.inv(B), dtype=np.float64)
    J = times_precision(R_t, W)
    return R_t, 0.5 * (J + J.transpose(0, 2, 1))


def times_precision(M: FloatArray, W: FloatArray) -> FloatArray:
    """M W for each user."""
    return np.asarray(M * W[:, None, :] if W.ndim == 2 else M @ W)


def times_vector(M: FloatArray, x: FloatArray) -> FloatArray:
    """M x for each user."""
    return np.asarray((M @ x[:, :, None])[:, :, 0])


def trace_of(A: FloatArray, B: FloatArray) -> float:
    """Sum over users of tr(A B)."""
    return float(np.einsum("bij,bji->", A, B))
