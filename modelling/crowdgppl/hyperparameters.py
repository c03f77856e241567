"""Learn the scales tau (own tastes), v_t (consensus) and share (features) by Fisher scoring of the evidence."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.special import ndtri

from .components import Axes
from .item_prior import MAX_SHARE, times
from .labels import UserBatch
from .likelihood import hazard, margin_gradient
from .posterior import Posterior
from .users import Statistics, Visit

SHAPE, SCALE = 0.25, 2.0  # prior of s = sqrt(v_t) in log v_t: SHAPE log s - s / SCALE; SCALE of the sd of tastes, too
RATIO_SD = 1.5  # v_t is not far below the variance of tastes: normal prior of log(v_t / tau) below 0
TASTE_PENALTY = 2.0  # exponential prior of the root of the share of tastes: none unless the labels show them
MIN_V_T = 0.01
MAX_MARGIN = 5.0
MIN_TAU = 1e-5
SHARE_PRIOR = 2.0  # pseudo-observations on both sides of share = 1/2
SHARED_ERRORS, MAX_SCALE_SD = 6.0, 0.5  # for the uncertainty of the common scale (set_scale_sd)
SMALL_SHARE = 0.05  # steps of tau below this share of all variance count less for convergence
RIDGE = 0.05  # added to every Fisher information
MAX_STEP = 1.5  # largest change of a log scale in one iteration
MAX_STEP_WITH_AXES = 0.3  # the same for log tau once A is free, so that the axes can follow


@dataclass
class Secant:
    """Step lengths for log scales.

    A Fisher step holds the sites fixed although they respond, so steps are too short: the secant of earlier steps
    estimates by how much.
    """

    memory: dict[str, tuple[float, float, float]] = field(default_factory=dict)

    def step(
        self, name: str, scoring: float, rho: float, longest: float = 5.0, limit: float = MAX_STEP
    ) -> float:  # fmt: skip
        """The step to take where Fisher scoring proposes `scoring`."""
        if rho < 1.0:
            return float(np.clip(rho * scoring, -limit, limit))
        length = 1.5
        if name in self.memory:
            before, taken, length = self.memory[name]
            drop = before - scoring
            if abs(taken) > 1e-6 and drop * taken > 0:
                length = float(np.clip(taken / drop, 0.2, min(longest, 1.7 * length)))
        step = float(np.clip(length * scoring, -limit, limit))
        self.memory[name] = (scoring, step, length)
        return step


def step_scales(
    post: Posterior, stats: Statistics, axes: Axes | None, secant: Secant, rho: float, scale: float
) -> float:
    """Step v_t and tau; return the largest change of a log scale.

    `stats` covers a sample of the users, who are `scale` times as many.
    """
    steps = [0.0]
    if post.personal:
        steps.append(step_tau(post, stats, axes, secant, rho, scale))
    if post.consensus:
        steps.append(step_v_t(post, secant, rho))
    return max(abs(step) for step in steps)


def step_tau(post: Posterior, stats: Statistics, axes: Axes | None, secant: Secant, rho: float, scale: float) -> float:
    """Step log tau, the variance of tastes outside the axes of A. Along the axes only their expected overfit counts."""
    gradient, fisher, in_axes = scale * post.tau * stats.gradient_tau, scale * post.tau**2 * stats.fisher_tau, 0.0
    if axes is not None:
        excess = axes.values - post.floor
        found = excess > 1e-3 * post.floor
        scores = 0.5 * scale * np.einsum("mc,mn,nc->c", axes.vectors, stats.gradient_A, axes.vectors)
        gradient -= post.tau * float((scores - axes.overfit)[found].sum())
        fisher = max(fisher - 0.5 * post.tau**2 * float(axes.fisher[found].sum()), 0.0)
        in_axes = float(excess.sum()) / post.n_items
    total = post.tau + in_axes
    share = total / (total + max(post.v_t, MIN_V_T))
    pull = 0.5 * TASTE_PENALTY * np.sqrt(share) * post.tau / total
    size = 0.5 * np.sqrt(total) / SCALE * post.tau / total
    scoring = (gradient - pull * (1.0 - share) - size) / (fisher + 0.5 * (pull + size) + RIDGE)
    step = secant.step("tau", scoring, rho, limit=MAX_STEP if axes is None else MAX_STEP_WITH_AXES)
    post.tau = float(max(post.tau * np.exp(step), MIN_TAU))
    if axes is not None:
        post.A_M = (axes.vectors * (post.floor + excess)) @ axes.vectors.T
    post.clear_cache()
    return step * min(1.0, post.tau / (SMALL_SHARE * (total + post.v_t)))


def step_v_t(post: Posterior, secant: Secant, rho: float) -> float:
    """Step log v_t; d log Z / d log v_t = (t' K^-1 t / v_t + tr(K^-1 S_t) / v_t - N) / 2."""
    N, K_inverse = float(post.n_items), post.prior.K_inverse
    left = times(K_inverse, post.S_t) / post.v_t
    trace = float(np.trace(left))
    square = float(post.t @ times(K_inverse, post.t)) / post.v_t
    sd = np.sqrt(post.v_t)
    if post.Psi.shape[1]:  # the part of t along the axes of A says less of v_t
        B, change = times(K_inverse, post.Psi), post.v_t * post.along_axes(2)[0]
        square += float(np.einsum("m,mn,n->", post.t @ B, change, post.t @ B))
        trace += float((change * (B.T @ post.S_t @ B)).sum())
        N += post.v_t * float(np.trace(post.along_axes(1)[0]))
    gradient = 0.5 * (square + trace - N) + 0.5 * (SHAPE - sd / SCALE)
    explained = N - 2.0 * trace + float(np.einsum("ij,ji->", left, left))
    fisher = 0.5 * explained + 0.25 * sd / SCALE + RIDGE
    below = np.log(max(post.tau, MIN_TAU) / post.v_t)
    if below > 0:
        gradient, fisher = gradient + below / RATIO_SD**2, fisher + 1.0 / RATIO_SD**2
    step = secant.step("v_t", gradient / fisher, rho)
    post.v_t = float(np.clip(post.v_t * np.exp(step), 1e-6, 1e6))
    return step


def step_share(post: Posterior, secant: Secant) -> float:
    """Step the share of the features in K by the evidence in t."""
    prior = post.prior
    if prior.K_features is None or not post.consensus:
        return 0.0
    share, K_inverse = prior.share, prior.K_inverse
    difference = prior.K_features - np.eye(prior.n_items)  # d K / d share
    B = K_inverse @ difference
    a = K_inverse @ post.t
    known = B - B @ (post.S_t @ K_inverse) / post.v_t
    gradient = 0.5 * float(a @ difference @ a / post.v_t - np.trace(known))
    slope = share * (1.0 - share)  # of the logistic function
    gradient = gradient * slope + SHARE_PRIOR * (1.0 - 2.0 * share)
    fisher = 0.5 * float(np.einsum("ij,ji->", known, known)) * slope**2 + 2.0 * SHARE_PRIOR * slope + RIDGE
    step = float(np.clip(secant.step("share", gradient / fisher, 1.0), -MAX_STEP, MAX_STEP))
    logit = np.log(share / (1.0 - share)) + step
    post.change_prior(prior.with_share(float(np.clip(1.0 / (1.0 + np.exp(-logit)), 0.02, MAX_SHARE))))
    return step


def scale_information(visit: Visit) -> float:
    """Information of the labels about the log of a common factor c of all utilities, from cross-predictions.

    Each label is predicted from the others by its cavity N(m, v): P(y) = Phi(c m / sqrt(1 + c^2 v)).
    """
    batch, spread = visit.batch, 1.0 + visit.cavity_v
    sign, weight = np.sign(batch.y - 0.5), batch.weight * np.abs(2.0 * batch.y - 1.0)
    x = (sign * visit.cavity_m - visit.margin) / np.sqrt(spread)
    r = hazard(x)
    return float((weight * (visit.cavity_m / spread**1.5) ** 2 * np.clip(r * (r + x), 0.0, 1.0)).sum())


def set_scale_sd(post: Posterior, information: float) -> None:
    """Set the uncertainty of the common scale of utilities, which is added to every interval.

    The errors of cross-predictions are correlated, so the information is divided by SHARED_ERRORS (see
    benchmarks/coverage.py).
    """
    post.scale_sd = float(min(np.sqrt(SHARED_ERRORS / max(information, 1e-12)), MAX_SCALE_SD))


def start_margin(post: Posterior, batch: UserBatch) -> None:
    """Initialise the margin so that pairs with small differences are tied as often as pairs are overall."""
    ties = float(batch.weight @ (batch.y == 0.5)) / max(float(batch.weight.sum()), 1e-12)
    post.margin = float(np.sqrt(2.0) * ndtri(0.5 * (1.0 + min(ties, 0.95)))) if ties else 0.0


def step_margin(post: Posterior, visit: Visit, rho: float) -> None:
    """Step the margin of ties by the evidence of the labels."""
    if not post.margin:
        return
    batch, a = visit.batch, visit.sharpness
    moments = visit.cavity_m * a, visit.cavity_v * a**2
    gradient, square = margin_gradient(*moments, batch.y, batch.weight, post.margin)
    step = (gradient - post.margin / MAX_MARGIN) * post.margin / (square * post.margin**2 + RIDGE)
    post.margin = float(min(post.margin * np.exp(np.clip(rho * step, -0.5, 0.5)), MAX_MARGIN))
