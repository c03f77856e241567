"""Where a fit begins: t alone first, then components along what t leaves unexplained."""

from __future__ import annotations

import numpy as np
from scipy import linalg, sparse

from .arrays import FloatArray
from .inference import Rules, iterate
from .posterior import Posterior, blank_posterior

ALONE = 10  # iterations of t by itself
NOISE = 0.1  # sd of the columns for which the data offer no direction


def consensus_alone(post: Posterior, rules: Rules) -> None:
    """The sites and q(t) of a model without components, put into this one."""
    none = post.scale_users.copy(slice(0))
    t_scale, consensus = post.scale_items.copy(slice(1)), post.items.first == 0
    alone = blank_posterior(post.space, post.ledger, t_scale, none, consensus, rest=post.rest)
    for _ in range(ALONE):
        if iterate(alone, rules) < rules.tolerance:
            break
    post.items.mean[:, 0], post.items.cov[0] = alone.items.mean[:, 0], alone.items.cov[0]
    post.scale_items.shape[0], post.scale_items.rate[0] = alone.scale_items.shape[0], alone.scale_items.rate[0]
    post.lam[:], post.tau[:], post.m[:], post.v[:] = alone.lam, alone.tau, alone.m, alone.v


def residual_directions(post: Posterior, count: int) -> tuple[FloatArray, FloatArray]:
    """Leading eigenvectors of R^T R, R (U, M) being each user's unexplained score, and their eigenvalues."""
    ledger = post.ledger
    score = post.tau[:-1] - post.lam[:-1] * post.m[:-1]
    a, b = ledger.pair_a[ledger.q[:-1]], ledger.pair_b[ledger.q[:-1]]
    rows, columns = np.tile(ledger.u, 2), np.concatenate((a, b))
    R = sparse.csr_array((np.concatenate((score, -score)), (rows, columns)), shape=(ledger.n_users, ledger.n_items))
    if post.space.Psi is None:
        gram = (R.T @ R).toarray()
    else:  # never items by items: there may be many
        whitened = R @ post.space.Psi
        gram = whitened.T @ whitened
    count = min(count, len(gram))
    values, vectors = linalg.eigh(gram, subset_by_index=(len(gram) - count, len(gram) - 1))
    return np.maximum(values[::-1], 0.0), vectors[:, ::-1]


def begin(post: Posterior, rules: Rules, rng: np.random.Generator) -> None:
    """A start away from the saddle v = w = 0.

    Departure: al:crowdgppl starts at the prior means, where v and w would stay 0 for ever.
    See test_starting_at_the_prior_means_is_a_saddle.
    """
    consensus_alone(post, rules)
    C = post.n_components
    if C == 0:
        return
    values, vectors = residual_directions(post, C)
    usable = int((values > 1e-8 * max(values[0], 1e-300)).sum()) if len(values) else 0
    V = NOISE * rng.standard_normal((post.space.M, C))
    if usable:
        signs = np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(vectors.shape[1])])
        V[:, :usable] = (vectors * signs * np.sqrt(values / values[0]))[:, :usable]
    post.items.mean[:, 1:] = V
    post.items.cov[1:] = 0.0
    post.refresh_pairs()
