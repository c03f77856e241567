"""Newton's method for item scores under a concave log posterior, with sparse matrices only."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import cg

from modelling.crowdgppl.arrays import FloatArray, IntArray

MAX_STEPS, TOLERANCE = 50, 1e-8

Evaluation = tuple[float, FloatArray, sparse.csr_matrix]  # value, gradient, minus Hessian
Posterior = Callable[[FloatArray], Evaluation]


def maximise(posterior: Posterior, start: FloatArray) -> tuple[FloatArray, sparse.csr_matrix]:
    """Return the maximiser and the negative Hessian there; steps are solved by conjugate gradients and backtracked."""
    theta = start
    value, slope, H = posterior(theta)
    for _ in range(MAX_STEPS):
        step, _ = cg(H, slope, rtol=1e-10, M=sparse.diags(1.0 / H.diagonal()))
        for _ in range(30):
            new = posterior(theta + step)
            if new[0] >= value - 1e-12 * abs(value):
                break
            step = step / 2.0
        theta = theta + step
        value, slope, H = new
        if np.abs(step).max() < TOLERANCE:
            break
    return theta, H


def score_posterior(
    f: FloatArray, a: IntArray, b: IntArray, terms: tuple[FloatArray, FloatArray, FloatArray], ridge: float
) -> Evaluation:
    """Evaluate the log posterior of scores f with a Gaussian prior and labels that depend on f_a - f_b.

    `terms` are each label's log likelihood, its slope and minus its curvature in the difference.
    """
    value, slope, curvature = terms
    n = len(f)
    gradient = np.bincount(a, slope, n) - np.bincount(b, slope, n) - ridge * f
    rows, columns = np.concatenate([a, b, a, b]), np.concatenate([a, b, b, a])
    entries = np.concatenate([curvature, curvature, -curvature, -curvature])
    H = sparse.coo_matrix((entries, (rows, columns)), shape=(n, n)).tocsr() + ridge * sparse.identity(n)
    return float(value.sum() - 0.5 * ridge * f @ f), gradient, sparse.csr_matrix(H)
