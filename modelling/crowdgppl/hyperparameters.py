"""Learn the scales tau (own tastes), v_t (consensus) and share (features) by Fisher scoring of the evidence."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from scipy import linalg
from scipy.special import ndtri

from .arrays import FloatArray
from .components import Axes
from .item_prior import MAX_SHARE, MIN_SHARE
from .labels import UserBatch
from .likelihood import Response
from .posterior import Posterior
from .shards import ShardedVisit
from .users import Statistics, Visit

SHAPE, SCALE = 0.25, 2.0  # log prior of s = sqrt(v_t): SHAPE log s - s / SCALE; SCALE also for the sd of tastes
RATIO_SD = 1.5  # sd of the normal prior of log(v_t / tau) below 0: v_t is rarely far below the variance of tastes
TASTE_PENALTY = 2.0  # rate of the exponential prior of sqrt(share of tastes), which favours no tastes
MIN_V_T = 0.01
MAX_MARGIN, MAX_TIES = 5.0, 0.95
FIRST_LAPSE = 0.01
LAPSE_PRIOR = (1.0, 49.0)  # pseudo-counts of answers given at random and of others
MIN_TAU = 1e-5
SHARE_PRIOR = 2.0  # pseudo-observations on either side of share = 1/2
SHARED_ERRORS, MAX_SCALE_SD = 6.0, 0.5  # for the uncertainty of the common scale (set_scale_sd)
SMALL_SHARE = 0.05  # while tau is below this share of all variance, its steps count less for convergence
RIDGE = 0.05  # added to every Fisher information
LONGEST = 3.0  # largest factor of a Fisher step
MAX_STEP = 1.5  # largest change of a log scale in one iteration
MAX_STEP_WITH_AXES = 0.3  # the same for log tau once A is learned, so that the axes can adapt, unless tau is small


@dataclass
class Secant:
    """Step lengths for log scales.

    A Fisher step holds the sites fixed although they respond, so steps are too short: the secant of earlier steps
    estimates by how much.
    """

    memory: dict[str, tuple[FloatArray, FloatArray, float]] = field(default_factory=dict)

    def step(self, name: str, scoring: FloatArray, limit: float = MAX_STEP, rho: float = 1.0) -> FloatArray:
        """Return the step to take, given the step `scoring` of Fisher scoring; with rho below 1 this share of it."""
        if rho < 1.0:
            return np.clip(rho * scoring, -limit, limit)
        length = 1.5
        name = f"{name} {len(scoring)}"
        if name in self.memory:
            before, taken, length = self.memory[name]
            square, drop = float(taken @ taken), float(taken @ (before - scoring))
            if square > 1e-12 and drop > 0:
                length = float(np.clip(square / drop, 0.2, min(LONGEST, 1.7 * length)))
        step = np.clip(length * scoring, -limit, limit)
        self.memory[name] = (scoring, step, length)
        return step


def step_scales(
    post: Posterior, stats: Statistics, axes: Axes | None, secant: Secant, shares: bool, limit: float
) -> float:
    """Step the scales of tastes and of the consensus by at most `limit`; return the largest change of a log scale.

    The shares of the features follow if `shares`.
    """
    steps = [0.0]
    if post.personal:
        steps.append(step_tastes(post, stats, axes, secant, shares, limit))
    if post.consensus:
        steps.append(step_consensus(post, secant, shares, limit))
    return max(steps)


def scale_and_share(gradient: FloatArray, fisher: FloatArray, share: float) -> tuple[FloatArray, FloatArray]:
    """From log variances of the features and of the own part to (log of their sum, logit of the share)."""
    if len(gradient) == 1:
        return gradient, fisher
    J = np.array([[1.0, 1.0 - share], [1.0, -share]])
    return J.T @ gradient, J.T @ fisher @ J


def add_share_prior(gradient: FloatArray, fisher: FloatArray, share: float) -> None:
    """Add the gradient and information of pseudo-observations on either side of share = 1/2."""
    if len(gradient) == 2:
        gradient[1] += SHARE_PRIOR * (1.0 - 2.0 * share)
        fisher[1, 1] += 2.0 * SHARE_PRIOR * share * (1.0 - share) + RIDGE


def moved_share(share: float, step: float) -> float:
    """The share after a step of its logit."""
    logit = np.log(share / (1.0 - share)) + step
    return float(np.clip(1.0 / (1.0 + np.exp(-logit)), MIN_SHARE, MAX_SHARE))


def step_tastes(
    post: Posterior, stats: Statistics, axes: Axes | None, secant: Secant, shares: bool, limit: float
) -> float:
    """Step log tau, the variance of tastes outside the axes of A; without axes, also step the share of the features.

    Along an axis at most its expected overfit counts: what exceeds it lengthens the axis. An axis with less is about
    to vanish and must not raise tau.
    """
    share, k = post.taste_prior.share, len(stats.gradient_tau)
    parts = post.tau * (np.array([share, 1.0 - share]) if k == 2 else np.ones(1))
    gradient = parts * stats.gradient_tau
    fisher = np.outer(parts, parts) * stats.fisher_tau
    gradient, fisher = scale_and_share(gradient, fisher, share)
    in_axes, excess = 0.0, np.zeros(0)
    if axes is not None:
        excess = axes.values - post.floor
        found = excess > 1e-3 * post.floor
        scores = 0.5 * np.einsum("mc,mn,nc->c", axes.vectors, stats.gradient_A, axes.vectors)
        gradient[0] -= post.tau * float(np.maximum(scores - axes.overfit, 0.0)[found].sum())
        fisher[0, 0] = max(fisher[0, 0] - 0.5 * post.tau**2 * float(axes.fisher[found].sum()), 0.0)
        in_axes = float(excess.sum()) / post.n_items
    total = post.tau + in_axes
    of_all = total / (total + max(post.v_t, MIN_V_T))
    pull = 0.5 * TASTE_PENALTY * np.sqrt(of_all) * post.tau / total
    size = 0.5 * np.sqrt(total) / SCALE * post.tau / total
    gradient[0] -= pull * (1.0 - of_all) + size
    fisher[0, 0] += 0.5 * (pull + size) + RIDGE
    add_share_prior(gradient, fisher, share)
    if not shares:
        gradient, fisher = gradient[:1], fisher[:1, :1]
    counts = min(1.0, post.tau / (SMALL_SHARE * (total + post.v_t)))
    limit = limit if axes is None else min(limit, MAX_STEP_WITH_AXES / counts)
    step = secant.step("tastes", linalg.solve(fisher, gradient, assume_a="pos"), limit)
    post.tau = float(max(post.tau * np.exp(step[0]), MIN_TAU))
    if len(step) == 2:
        post.taste_prior = post.taste_prior.with_share(moved_share(share, step[1]))
    if axes is not None:
        post.A_M = (axes.vectors * (post.floor + excess)) @ axes.vectors.T
    post.clear_cache()
    return float(np.abs(step).max()) * counts


def consensus_gradient(post: Posterior) -> tuple[FloatArray, FloatArray]:
    """Gradient of the evidence in log v_t and the logit of the share of the features, and Fisher's information.

    With W = C^-1 - C^-1 S_t C^-1 and c = C^-1 t the gradient in the variance of a part Q of C is
    (c' Q c - tr(W Q)) / 2, and Fisher's information about two of them is tr(W Q W Q') / 2.
    """
    F, v, share = post.prior.K_features, post.v_t, post.prior.share
    c = post.times_C_inverse(post.t)
    if F is None:
        trace, square = traces_of_W(post)
        return 0.5 * v * np.array([c @ c - trace]), 0.5 * v**2 * np.array([[square]])
    W = post.times_C_inverse(np.eye(post.n_items) - post.times_C_inverse(post.S_t).T)
    WF = W @ F
    parts = v * np.array([share, 1.0 - share])
    gradient = 0.5 * parts * np.array([c @ F @ c - np.trace(WF), c @ c - np.trace(W)])
    cross = float((WF * W.T).sum())
    fisher = np.array([[float((WF * WF.T).sum()), cross], [cross, float((W * W.T).sum())]])
    return scale_and_share(gradient, 0.5 * np.outer(parts, parts) * fisher, share)


def traces_of_W(post: Posterior) -> tuple[float, float]:
    """tr W and tr(W W) where K = I, without a product of two (N, N) matrices."""
    S, N = post.S_t, post.n_items
    v, U, Z = post.score_axes()
    of_S = float(np.trace(S))
    inner, cross = Z @ (U.T @ U), Z @ (U.T @ (U - S @ U / v)) / v
    trace = N / v - of_S / v**2 + float(np.trace(inner))
    square = N / v**2 - 2.0 * of_S / v**3 + float(np.vdot(S, S)) / v**4
    return trace, square + 2.0 * float(np.trace(cross)) + float((inner * inner.T).sum())


def step_consensus(post: Posterior, secant: Secant, shares: bool, limit: float = MAX_STEP, rho: float = 1.0) -> float:
    """Step log v_t and, if `shares`, the share of the features in K; return the largest change."""
    gradient, fisher = consensus_gradient(post)
    v, share = post.v_t, post.prior.share
    sd = np.sqrt(v)
    gradient[0] += 0.5 * (SHAPE - sd / SCALE)
    fisher[0, 0] += 0.25 * sd / SCALE + RIDGE
    below = np.log(max(post.tau, MIN_TAU) / v)
    if below > 0:
        gradient[0], fisher[0, 0] = gradient[0] + below / RATIO_SD**2, fisher[0, 0] + 1.0 / RATIO_SD**2
    add_share_prior(gradient, fisher, share)
    if not shares:
        gradient, fisher = gradient[:1], fisher[:1, :1]
    step = secant.step("consensus", linalg.solve(fisher, gradient, assume_a="pos"), limit, rho)
    post.v_t = float(np.clip(v * np.exp(step[0]), 1e-6, 1e6))
    if len(step) == 2:
        post.prior = post.prior.with_share(moved_share(share, step[1]))
    return float(np.abs(step).max())


def scale_information(visit: Visit) -> float:
    """Information in the labels about the log of a common factor c of all utilities, from cross-predictions.

    Each label is predicted from the others by its cavity N(m, v): P(y) = Phi(c m / sqrt(1 + c^2 v)).
    """
    batch, spread = visit.batch, 1.0 + visit.cavity_v
    sign, weight = np.sign(batch.y - 0.5), batch.weight * np.abs(2.0 * batch.y - 1.0)
    x = (sign * visit.cavity_m - visit.response.margin) / np.sqrt(spread)
    r = visit.response.slope(x)
    return float((weight * (visit.cavity_m / spread**1.5) ** 2 * np.clip(r * (r + x), 0.0, 1.0)).sum())


def set_scale_sd(post: Posterior, information: float) -> None:
    """Set the uncertainty of the common scale of utilities, which is added to every interval.

    The errors of cross-predictions are correlated, so the information is divided by SHARED_ERRORS (see
    benchmarks/model/coverage.py).
    """
    post.scale_sd = float(min(np.sqrt(SHARED_ERRORS / max(information, 1e-12)), MAX_SCALE_SD))


def start_response(post: Posterior, batch: UserBatch) -> None:
    """Initialise the lapses, and the margin so that pairs with small differences are tied as often as all pairs."""
    ties = min(float(batch.weight @ (batch.y == 0.5)) / max(float(batch.weight.sum()), 1e-12), MAX_TIES)
    post.response = Response(float(np.sqrt(2.0) * ndtri(0.5 * (1.0 + ties))), FIRST_LAPSE, ties)


def step_response(post: Posterior, visit: Visit | ShardedVisit, rho: float) -> None:
    """Step the margin of ties and the share of lapses by the evidence of the labels."""
    gradient, square, lapses, answers = visit.response_statistics(post.response)
    margin, lapse = post.response.margin, post.response.lapse
    lapse += rho * ((LAPSE_PRIOR[0] + lapses) / (sum(LAPSE_PRIOR) + answers) - lapse)
    if margin:
        step = (gradient - margin / MAX_MARGIN) * margin / (square * margin**2 + RIDGE)
        margin = float(min(margin * np.exp(np.clip(rho * step, -0.5, 0.5)), MAX_MARGIN))
    post.response = replace(post.response, margin=margin, lapse=float(lapse))
