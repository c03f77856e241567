"""The evidence lower bound of the current q, from its Kullback-Leibler terms (eq:lowerbound_crowd).

Departure: derived, not transcribed: the printed bound lacks the factor M of E[ln s], has (1 - y)(1 - E[ln Phi])
for (1 - y) E[ln(1 - Phi)], and signs of ln Gamma. See test_the_bound_equals_its_terms_by_sampling.
"""

from __future__ import annotations

import numpy as np
from scipy.special import digamma, gammaln

from .arrays import FloatArray
from .likelihood import expected_log
from .posterior import Posterior
from .scales import Scales
from .users import present_moments


def lower_bound(post: Posterior) -> float:
    """E[ln p(y | z)] - KL(items) - KL(users) - KL(scales), whatever the sites are."""
    return expected_loglik(post) - kl_items(post) - kl_users(post) - kl_scales(post)


def expected_loglik(post: Posterior) -> float:
    """The data term, z taken as Gaussian with its first two moments."""
    ledger = post.ledger
    m, v = present_moments(ledger, post.pairs, post.users)
    a = post.sharpness(slice(None, -1))
    value = expected_log(a * m[:-1], a * a * v[:-1], ledger.y[:-1])
    return float((ledger.weight[:-1] * value).sum())


def kl_gaussian(energy: FloatArray, log_det: FloatArray, s: Scales, dimension: int) -> float:
    """Sum over c of E_q(s)[KL(N(m, S) || N(0, I / s))], from E|x|^2 and ln|S|."""
    each = 0.5 * (s.mean * energy - dimension - dimension * s.mean_log - log_det)
    return float(each.sum())


def kl_items(post: Posterior) -> float:
    """t and the v_c against their priors."""
    chosen = slice(post.items.first, None)
    log_det = np.linalg.slogdet(post.items.cov[chosen])[1]
    return kl_gaussian(post.items.energy[chosen], log_det, post.scale_items.copy(chosen), post.space.M)


def kl_users(post: Posterior) -> float:
    """The weights against their prior N(g, 1 / s_w)."""
    users, s = post.users, post.scale_users
    U, C = users.W.shape
    if C == 0:
        return 0.0
    ratio = np.broadcast_to(post.own_s_w / s.mean, (U, C))  # 1 without traits
    energy = (ratio * ((users.W - users.g) ** 2 + users.variances)).sum(axis=0)
    prior = U * s.mean_log.sum() + np.log(ratio).sum()
    log_det = np.linalg.slogdet(users.Omega)[1].sum()
    return float(0.5 * ((s.mean * energy).sum() - U * C - prior - log_det))


def kl_scales(post: Posterior) -> float:
    """The learned scales against their Gamma priors; a fixed one costs nothing."""
    items = post.scale_items.copy(slice(post.items.first, None))
    return sum(kl_gamma(each) for each in (items, post.scale_users))


def kl_gamma(s: Scales) -> float:
    """KL(Gamma(a, b) || Gamma(a_0, b_0)) summed over the learned scales, b being rates."""
    a, b, a_0, b_0 = s.shape, s.rate, s.prior_shape, s.prior_rate
    each = (a - a_0) * digamma(a) - gammaln(a) + gammaln(a_0) + a_0 * (np.log(b) - np.log(b_0)) + a * (b_0 - b) / b
    return float(each[s.learned].sum())
