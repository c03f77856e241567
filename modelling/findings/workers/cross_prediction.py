"""Predict a worker's answers from the crowd without this worker, and each answer from the others. Arrays in and out.

A hypothesis about a worker is a normal distribution N(mean, K) of the differences z of the judged pairs. Expectation
propagation gives the evidence of the answers under it, and the leave-one-out distribution (cavity) of each z
(Rasmussen and Williams 2006, sections 3.6 and 5.4.2).

The crowd's predictions must not depend on the worker's own answers. In the coordinates of these answers (D maps
utilities to differences) let Y = D S_t D', G = D A D', L and e the precisions and shifts of the sites, J =
(L^-1 + G)^-1 the worker's precision about D t, and h = J L^-1 e the shift. Without the worker D t has the mean
(I - Y J)^-1 (D t - Y h) and the covariance (I - Y J)^-1 Y.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr

from modelling.crowdgppl import UserBatch
from modelling.crowdgppl.arrays import FloatArray, IntArray
from modelling.crowdgppl.likelihood import Response, cavity, log_site_integral, matched_site, tilted_moments
from modelling.crowdgppl.posterior import Posterior

STEPS, DAMPING, TOLERANCE = 40, 0.8, 1e-3
LEAST_PRECISION = 1e-6  # of a site


@dataclass(frozen=True, eq=False)
class Prior:
    """Distribution of the differences z of some pairs before their answers are known."""

    mean: FloatArray
    K: FloatArray

    def sharpened(self, factor: float) -> Prior:
        """Scale the differences: with a factor above 1 answers are less noisy than the crowd's, below 1 noisier."""
        return Prior(factor * self.mean, factor**2 * self.K)


@dataclass(frozen=True, eq=False)
class Evidence:
    """Log evidence of the answers relative to coin flips, and the log probability of each one given the others."""

    total: float
    mean: FloatArray  # leave-one-out, of z
    variance: FloatArray
    log_probability: FloatArray


def find_evidence(prior: Prior, y: FloatArray, margin: float) -> Evidence:
    """Run expectation propagation for decided answers y (1 or 0), conditional on their not being ties."""
    n, weight, response = len(y), np.ones(len(y)), Response(margin)  # lapses are what the hypotheses explain
    lam, eta = np.full(n, LEAST_PRECISION), np.zeros(n)
    m, v = prior.mean, np.diagonal(prior.K)
    for _ in range(STEPS):
        new_lam, new_eta = matched_site(m, v, y, weight, response=response)
        new_lam = np.maximum(new_lam, LEAST_PRECISION)
        change = float(np.abs(new_lam - lam).max(initial=0.0))
        lam, eta = lam + DAMPING * (new_lam - lam), eta + DAMPING * (new_eta - eta)
        root = np.sqrt(lam)
        B = np.eye(n) + root[:, None] * prior.K * root[None, :]
        V = prior.K - (prior.K * root[None, :]) @ np.linalg.solve(B, root[:, None] * prior.K)
        shift = eta - lam * prior.mean
        m, v = cavity(prior.mean + V @ shift, np.diagonal(V), lam, eta)
        if change < TOLERANCE:
            break
    log_p = tilted_moments(m, v, y, weight, response)[0]
    gaussian = eta @ prior.mean - 0.5 * prior.mean @ (lam * prior.mean) + 0.5 * shift @ V @ shift
    gaussian -= 0.5 * np.linalg.slogdet(B)[1]
    log_p, decided = log_p - log_decided(m, v, margin), log_decided(prior.mean, np.diagonal(prior.K), margin)
    total = float((tilted_moments(m, v, y, weight, response)[0] - log_site_integral(m, v, lam, eta)).sum() + gaussian)
    return Evidence(total - float(decided.sum()) + n * np.log(2.0), m, v, log_p)


def log_decided(m: FloatArray, v: FloatArray, margin: float) -> FloatArray:
    """Log probability that an answer is not a tie."""
    if margin == 0.0:
        return np.zeros(len(m))
    spread = np.sqrt(1.0 + v)
    return np.asarray(np.logaddexp(log_ndtr((m - margin) / spread), log_ndtr((-m - margin) / spread)))


@dataclass(frozen=True, eq=False)
class Crowd:
    """The other workers' predictions for the pairs of a worker, under each hypothesis."""

    consensus: Prior  # for a worker without personal tastes
    personal: Prior  # with the tastes of this crowd
    alone: Prior  # unrelated to the crowd, with scores as spread as the crowd's
    scores: FloatArray  # (N,) consensus without the worker


def crowd_without(post: Posterior, a: IntArray, b: IntArray, user: int, sites: UserBatch | None) -> Crowd:
    """The other workers' predictions for a worker's pairs; `sites` are this worker's, if the posterior has them."""
    G = pair_covariance(post.A, a, b) if post.personal else np.zeros((len(a), len(a)))
    taste = taste_means(post, a, b, user)
    if sites is None:
        mean, Y, scores = post.t[a] - post.t[b], pair_covariance(post.S_t, a, b), post.t
    else:
        mean, Y, scores = leave_out(post, a, b, sites)
    variance = float(np.var(post.t)) + post.taste_variance
    alone = Prior(np.zeros(len(a)), variance * pair_covariance(np.eye(post.n_items), a, b))
    return Crowd(Prior(mean, Y), Prior(mean + taste, Y + G), alone, scores)


def pair_covariance(S: FloatArray, a: IntArray, b: IntArray) -> FloatArray:
    """D S D' of the pairs (a, b)."""
    return np.asarray(S[np.ix_(a, a)] - S[np.ix_(a, b)] - S[np.ix_(b, a)] + S[np.ix_(b, b)])


def taste_means(post: Posterior, a: IntArray, b: IntArray, user: int) -> FloatArray:
    """The differences that the worker's traits predict."""
    if post.trait_weights is None or user >= len(post.trait_weights):
        return np.zeros(len(a))
    return np.asarray((post.Psi[a] - post.Psi[b]) @ post.trait_weights[user])


def leave_out(post: Posterior, a: IntArray, b: IntArray, sites: UserBatch) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Mean and covariance of t at the pairs (a, b), and t of all items, without the worker who has these sites."""
    c, d, n = sites.a, sites.b, len(sites)
    Y = pair_covariance(post.S_t, c, d)
    G = pair_covariance(post.A, c, d) if post.personal else np.zeros((n, n))
    lam = np.maximum(np.nan_to_num(sites.lam), LEAST_PRECISION)
    J = np.linalg.inv(np.diag(1.0 / lam) + G)
    h = J @ (np.nan_to_num(sites.eta) / lam - taste_means(post, c, d, int(sites.users[0])))
    # S_t without the worker is S_t + S_t D' J (I - Y J)^-1 D S_t, and t changes by -S_t D' (I - J Y)^-1 (h - J D t).
    inner = np.eye(n) - Y @ J
    S_D = post.S_t[:, c] - post.S_t[:, d]
    scores = post.t - S_D @ np.linalg.solve(inner.T, h - J @ (post.t[c] - post.t[d]))
    cross = S_D[a] - S_D[b]
    gain = cross @ J @ np.linalg.solve(inner, cross.T)
    return scores[a] - scores[b], pair_covariance(post.S_t, a, b) + 0.5 * (gain + gain.T), scores
