"""The covariance A of tastes: its free directions, its natural-gradient step, and how many components it holds.

In the paper A = sum_c v_c v_c' / s_c with v_c ~ GP(0, K). Here A = tau K + Psi (A_M - tau I) Psi', learned by
maximising the evidence, corrected for the overfit of directions that were fitted to the same labels. The components are
the leading directions of A.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from scipy import linalg
from scipy.sparse.linalg import ArpackNoConvergence, eigsh

from .arrays import FloatArray
from .blocks import padded_size
from .item_prior import inverse_of
from .posterior import Posterior
from .users import Statistics, Visit, times_vector

NULL_SAMPLES, NULL_ENTRIES = (8, 96), 250_000  # samples of scores without components: fewest, most, and total size
NULL_SDS = 3.0  # there are components if the largest eigenvalue exceeds the null mean by this many null sds
MAX_AXIS_TURN = 0.3  # largest rotation of an axis of A in one iteration
CG_STEPS = 6
MIN_CURVATURE = 0.05
SAME_VARIANCE = 1e-2  # eigenvalues with a smaller relative difference are treated as equal
MAX_SPREAD = 0.35  # upper limit of the spread, as a share of the variance along the axes
MIN_VARIANCE, MAX_VARIANCE = 1e-8, 1e6  # limits of the variance of tastes along a direction
CERTAIN_SDS = 5.0  # above this many null sds the correction is used as it is
DOUBT = 1.5  # added to the correction where the scores show no component
OVERFIT_MARGIN = 0.9  # factor of the theoretical overfit, which takes all items as equally well known
CLEAR = 0.5  # a component counts if its expected squared cosine with the true direction exceeds this
DIRECTION_STEP, MAX_TURN = 6.0, 0.4  # factor of the gradient step; its largest norm, relative to the norm of A
SMALL_PROBLEM = 200  # up to this many items a full eigendecomposition is faster than a partial one


def leading(M: FloatArray, count: int) -> tuple[FloatArray, FloatArray]:
    """The largest eigenvalues, descending, and their eigenvectors."""
    count = min(count, len(M))
    found = None
    if len(M) > SMALL_PROBLEM and count <= len(M) // 4:
        with suppress(ArpackNoConvergence):  # the eigenvalues may be too close to each other
            found = eigsh(M, k=count, which="LA", v0=np.ones(len(M)), tol=1e-4)
    values, vectors = linalg.eigh(M, driver="evd") if found is None else found  # the default fails for some matrices
    order = np.argsort(-values)[:count]
    return values[order], vectors[:, order]


def choose_directions(visit: Visit, post: Posterior, limit: int, rng: np.random.Generator) -> None:
    """Set Psi to the directions in which users differ most, and find whether they exceed chance."""
    expected = visit.expected_scores(post)
    M = min(limit, post.n_items)
    excess = visit.excess(post, expected) - shared_excess(post, len(visit.batch.users))
    values, vectors = leading(post.taste_prior.whiten(excess), M)
    Psi = post.taste_prior.unwhiten(vectors)
    deviation = deviation_from_chance(visit, post, float(values[0]), expected, rng)
    post.n_supported = int(deviation > NULL_SDS)
    certainty = float(np.clip((deviation - 1.0) / (CERTAIN_SDS - 1.0), 0.0, 1.0))
    if not post.consensus:
        certainty = 1.0  # the components hold the consensus
    post.caution = DOUBT * (1.0 - certainty)
    information = score_information(visit, Psi)
    least = max(1e-9 * float(information.max(initial=0.0)), 1e-12)  # labels say nothing about a common constant
    size = np.clip(values / np.maximum(information, least), 0.0, 10.0 * post.tau)
    post.Psi, post.A_M = Psi, np.diag(post.tau + 0.5 * certainty * size)
    post.clear_cache()


def score_information(visit: Visit, Psi: FloatArray) -> FloatArray:
    """Sum over users of (psi' D' J D psi)^2 for each direction: twice the Fisher information of its variance."""
    total = np.zeros(Psi.shape[1])
    for solution in visit.solutions:
        Psi_b = solution.block.at(Psi)
        total += ((Psi_b * (solution.J @ Psi_b)).sum(axis=1) ** 2).sum(axis=0)
    return total


def deviation_from_chance(
    visit: Visit, post: Posterior, largest: float, expected: FloatArray, rng: np.random.Generator
) -> float:
    """The largest eigenvalue of the scores in null sds above that of samples with A = tau K (Horn 1965)."""
    roots = score_roots(visit, post)
    n_samples = int(np.clip(NULL_ENTRIES / (len(visit.groups.users) * post.n_items), *NULL_SAMPLES))
    null = [sampled_eigenvalue(visit, post, roots, expected, rng) for _ in range(n_samples)]
    return float((largest - np.mean(null)) / max(float(np.std(null, ddof=1)), 1e-300))


def score_roots(visit: Visit, post: Posterior) -> list[FloatArray]:
    """Roots of the covariance J - J Y J of alpha in each block."""
    roots = []
    for solution in visit.solutions:
        JYJ = solution.J @ solution.block.prior(post.S_t) @ solution.J
        values, vectors = np.linalg.eigh(solution.J - 0.5 * (JYJ + JYJ.transpose(0, 2, 1)))
        roots.append((vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]) @ vectors.transpose(0, 2, 1))
    return roots


def sampled_eigenvalue(
    visit: Visit, post: Posterior, roots: list[FloatArray], expected: FloatArray, rng: np.random.Generator
) -> float:
    """The largest eigenvalue of the scores of a crowd without components."""
    n_users = len(visit.groups.users)
    widest = int(padded_size(np.array([root.shape[1] for root in roots])).max())
    # Each user has their own random numbers, so one more label changes little.
    Z, noise = np.zeros((n_users, post.n_items)), rng.standard_normal((n_users, widest))
    for solution, root in zip(visit.solutions, roots, strict=True):
        block = solution.block
        block.add_user_rows(Z, times_vector(root, block.oriented(noise[block.users, : root.shape[1]])))
    excess = post.taste_prior.whiten(Z.T @ Z - expected)
    if len(excess) > SMALL_PROBLEM:
        return float(leading(excess, 1)[0][0])
    with suppress(linalg.LinAlgError):  # faster, but fails for some matrices
        return float(linalg.eigvalsh(excess, subset_by_index=[len(excess) - 1, len(excess) - 1])[0])
    return float(linalg.eigvalsh(excess, driver="evd")[-1])


def shared_excess(post: Posterior, n_users: float, Psi: FloatArray | None = None) -> FloatArray:
    """The part of the excess that all users share, which belongs to t; with `Psi`, in the directions Psi.

    Without the prior of t the scores of all users would sum to 0 (residual maximum likelihood). Their sum is h - H t,
    with covariance H - H S_t H if t has its prior.
    """
    if not post.consensus:
        return np.zeros((post.n_items, post.n_items) if Psi is None else (Psi.shape[1], Psi.shape[1]))
    total = post.h - post.H @ post.t
    if Psi is None:
        expected = post.score_covariance()
    else:
        H_Psi = post.H @ Psi
        total, expected = total @ Psi, Psi.T @ H_Psi - H_Psi.T @ (post.S_t @ H_Psi)
    return np.asarray((np.outer(total, total) - expected) / max(n_users, 1.0))


def refresh_directions(post: Posterior, excess: FloatArray, n_users: float, count: int = 0) -> FloatArray:
    """Rotate Psi and the variance of A along it towards the gradient of the evidence; return the rotation (M, M).

    `excess` (N, N) is the sum over `n_users` users of 2 d log Z / dA; the step shrinks with the count of refreshes. A
    user's scores have covariance J = (A + n)^-1 with the noise n of their labels, so that (A + n) excess (A + n) / U is
    the part of the users' covariance that A lacks.
    """
    N, W, D = post.n_items, post.taste_prior.whitened(post.Psi), post.A_M - post.floor * np.eye(post.Psi.shape[1])
    information = float(np.trace(post.taste_prior.whiten(post.H))) / (N * max(n_users, 1.0))
    noise = max(1.0 / max(information, 1e-300) - post.floor - float(np.trace(D)) / N, 0.0)
    step = both_sides(post.taste_prior.whiten(excess), post.floor + noise, W, D) / max(n_users, 1.0)
    size = np.sqrt(N * post.floor**2 + 2.0 * post.floor * float(np.trace(D)) + float((D**2).sum()))
    length = DIRECTION_STEP / (1.0 + count)
    length = min(length, MAX_TURN * size / max(float(np.linalg.norm(step)), 1e-300))
    _, vectors = leading(length * step + W @ D @ W.T, len(D))
    turned = vectors.T @ W
    A_M = post.floor * np.eye(len(D)) + turned @ D @ turned.T
    kept = float(np.trace(A_M)) / float(np.trace(post.A_M))
    post.Psi, post.A_M = (
        post.taste_prior.unwhiten(vectors),
        bounded(A_M / kept, post.floor),
    )  # the rotation preserves the variance
    post.clear_cache()
    return np.asarray(turned)


def both_sides(E: FloatArray, scale: float, W: FloatArray, D: FloatArray) -> FloatArray:
    """S E S with S = scale I + W D W', symmetric."""
    half = scale * E + W @ (D @ (W.T @ E))
    whole = scale * half + ((half @ W) @ D) @ W.T
    return np.asarray(0.5 * (whole + whole.T))


@dataclass(frozen=True, eq=False)
class Axes:
    """The principal axes of A_M, and how far the evidence overstates the variance along each.

    The axes are fitted to the same labels as the variances. In a spiked covariance (Baik, Ben Arous and Peche 2005)
    with noise n and gamma = items / users, an axis of true variance x n shows (1 + x) (1 + gamma / x) n instead of
    (1 + x) n, and its squared cosine with the true axis is c = (1 - gamma / x^2) / (1 + gamma / x). So A keeps x c n
    along the axis; x (1 - c) n is the uncertainty of the axis and is spread over all items at the end of a fit.
    """

    values: FloatArray  # (M,) eigenvalues, not below the floor
    vectors: FloatArray  # (M, M)
    fisher: FloatArray  # (M,) twice the information of all users about each variance
    overfit: FloatArray  # (M,) expected d log Z / d value of an axis that has been fitted
    cosine: FloatArray  # (M,) c
    spread: float  # variance per item from the uncertainty of the axes


def principal_axes(post: Posterior, stats: Statistics) -> Axes:
    """The axes of A_M.

    Among axes of equal variance, those of the gradient are used: the result must not depend on the order of items
    and users.
    """
    size = max(float(np.abs(stats.gradient_A).max()), 1e-300)
    _, vectors = np.linalg.eigh(post.A_M + SAME_VARIANCE * post.floor / size * stats.gradient_A)
    values = np.maximum(((post.A_M @ vectors) * vectors).sum(axis=0), post.floor)
    J = np.maximum(((stats.J_users @ vectors) * vectors).sum(axis=1), 0.0)  # (sampled users, M)
    scale = stats.n_users / max(len(J), 1)
    total, square = scale * J.sum(axis=0), np.maximum(scale * (J**2).sum(axis=0), 1e-300)
    known = square / np.maximum(total, 1e-300)  # mean of J, weighted by J itself
    n_users = np.maximum(total**2 / square, 1e-9)
    noise = post.tau + np.maximum(1.0 / np.maximum(known, 1e-9) - values, 0.0)
    n_items = effective_items(post)
    gamma, kept = n_items / n_users, (values - post.floor) / noise
    x = 0.5 * (kept + np.sqrt(kept**2 + 4.0 * gamma * (1.0 + kept)))  # solves x c = kept
    cosine = kept / x
    overfit = 0.5 * total * ((1.0 + x) * (1.0 + gamma / x) / (1.0 + kept) - 1.0)
    overfit *= OVERFIT_MARGIN + post.caution
    spread = min(float((kept * noise * (1.0 - cosine)).sum()), MAX_SPREAD * float((kept * noise).sum())) / n_items
    return Axes(values, vectors, square, overfit, cosine, spread)


def effective_items(post: Posterior) -> float:
    """The effective number of directions about which the labels are more informative than the prior.

    tr[c H (I + c H)^-1] relative to K_A, with c the variance of utilities per item, not below that of the noise.
    """
    N = post.n_items
    variance = post.v_t + post.floor + float(np.trace(post.A_M - post.floor * np.eye(len(post.A_M)))) / N
    H = max(variance, 1.0) * post.taste_prior.whiten(post.H)
    if post.taste_prior.K.ndim == 1:
        known = np.diagonal(H)
        return max(float((known / (1.0 + known)).sum()), 1.0)
    H[np.diag_indices(N)] += 1.0
    return max(N - float(np.trace(inverse_of(H)[0])), 1.0)


def step_A(
    post: Posterior, stats: Statistics, axes: Axes, memory: dict[str, FloatArray], limit: float, free: bool
) -> float:
    """Natural-gradient step of A_M = L L' to L (I + E) L'; return the largest relative change.

    With many users axes are `free` to turn towards directions of little variance; with few they would overfit.

    Fisher's information is F[E] = sum_u J_u E J_u / 2 with J_u = L' Psi' D' J D Psi L, inverted by conjugate gradients.
    """
    L = axes.vectors * np.sqrt(axes.values)
    overfit = axes.overfit * axes.values
    gradient = 0.5 * (L.T @ stats.gradient_A @ L) - np.diag(overfit)
    J = L.T @ stats.J_users @ L  # (sampled users, M, M)
    fisher_scale = stats.n_users / max(len(J), 1)
    ridge, scale = 0.5 * np.sqrt(np.outer(overfit, overfit)) + MIN_CURVATURE, np.ones_like(L)
    if free:  # a turn towards a small axis does not change the overfit, and must not become slow
        ridge = MIN_CURVATURE / turns_of(axes.values) + 0.5 * np.diag(overfit)
        own = np.diagonal(J, axis1=1, axis2=2)
        scale = 0.5 * fisher_scale * (own.T @ own) + ridge

    def fisher(E: FloatArray) -> FloatArray:
        return np.asarray(0.5 * fisher_scale * sum_products(J @ E, J) + ridge * E)

    E = conjugate_gradients(fisher, 0.5 * (gradient + gradient.T), scale, CG_STEPS)
    E = 0.5 * (E + E.T)
    proposed, length = L @ E @ L.T, 1.0
    if "proposed" in memory:  # Barzilai-Borwein: the sites respond, so Fisher steps are too short
        drop = float((memory["step"] * (memory["proposed"] - proposed)).sum())
        square = float((memory["step"] ** 2).sum())
        length = float(np.clip(square / drop if drop > 0 else 1.0, 0.3, 3.0))
    before, post.A_M = post.A_M, bounded(L @ moved(length * E, axes.values, limit) @ L.T, post.floor)
    memory["proposed"], memory["step"] = proposed, post.A_M - before  # with the step actually taken, after clipping
    post.clear_cache()
    change = axes.vectors.T @ (post.A_M - before) @ axes.vectors
    return float(np.abs(change / np.sqrt(np.outer(axes.values, axes.values))).max())


def moved(E: FloatArray, values: FloatArray, limit: float) -> FloatArray:
    """The step I + E, with the change of variances limited to a factor exp(limit) and rotations between axes limited.

    The exponential of E would lengthen an axis that rotates towards a direction of little variance.
    """
    turn = min(MAX_AXIS_TURN, limit) * turns_of(values)
    out = np.clip(E, -turn, turn)
    np.fill_diagonal(out, np.exp(np.clip(np.diagonal(E), -limit, limit)))
    return np.asarray(out)


def turns_of(values: FloatArray) -> FloatArray:
    """The entries of E that turn one axis by as much as the angle 1: ratios of the lengths of axes (M, M)."""
    root = np.sqrt(values)
    return np.asarray(np.maximum.outer(root, root) / np.minimum.outer(root, root))


def add_spread(post: Posterior, spread: float) -> None:
    """Add the uncertainty of the axes to the variance of tastes of every item."""
    post.spread += spread
    post.A_M = post.A_M + spread * np.eye(len(post.A_M))
    post.clear_cache()


def bounded(A: FloatArray, floor: float = 0.0) -> FloatArray:
    """A symmetric matrix with its eigenvalues kept between `floor` or MIN_VARIANCE and MAX_VARIANCE."""
    values, vectors = np.linalg.eigh(0.5 * (A + A.T))
    out = (vectors * np.clip(values, max(floor, MIN_VARIANCE), MAX_VARIANCE)) @ vectors.T
    return np.asarray(0.5 * (out + out.T))


def sum_products(left: FloatArray, right: FloatArray) -> FloatArray:
    """Sum over users of left_u right_u."""
    U, M, _ = left.shape
    return np.asarray(left.transpose(1, 0, 2).reshape(M, U * M) @ right.reshape(U * M, M))


def conjugate_gradients(
    apply: Callable[[FloatArray], FloatArray], b: FloatArray, scale: FloatArray, steps: int
) -> FloatArray:
    """Solve apply(x) = b for symmetric matrices in a few approximate steps; `scale` is about the diagonal of apply."""
    x, r = np.zeros_like(b), b.copy()
    z = r / scale
    p, square = z.copy(), float((r * z).sum())
    first = square
    for _ in range(steps):
        if square <= 1e-4 * first or square == 0.0:
            break
        Ap = apply(p)
        step = square / float((p * Ap).sum())
        x += step * p
        r -= step * Ap
        z = r / scale
        new = float((r * z).sum())
        p, square = z + new / square * p, new
    return x


def recount_components(post: Posterior, axes: Axes) -> None:
    """Count the clear components of the fitted A, if the scores support any."""
    if post.n_supported:
        found = axes.values > (1.0 + SAME_VARIANCE) * post.floor
        post.n_supported = min(max(1, int((axes.cosine > CLEAR).sum())), int(found.sum()))


def component_axes(post: Posterior) -> tuple[FloatArray, FloatArray]:
    """The supported principal axes (N, C) of A relative to K, and the variance along each, descending."""
    if not post.n_supported:
        return np.zeros((post.n_items, 0)), np.zeros(0)
    values, vectors = np.linalg.eigh(post.A_M)
    order = np.argsort(-values)[: post.n_supported]
    axes = post.Psi @ vectors[:, order]
    signs = np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])])
    return axes * np.where(signs == 0, 1.0, signs), values[order]
