"""Hamiltonian Monte Carlo under a standard normal prior, many chains side by side, and how well they mixed.

The prior is followed exactly, as a rotation of position and momentum; only the likelihood is taken in steps. So the
length of a step is set by what the labels say, not by how many unknowns there are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from .arrays import FloatArray

QUARTER = 0.5 * np.pi  # of a turn, after which the prior alone would have forgotten where it began
WANTED_ACCEPTANCE = 0.8
FIRST_STEP, USUAL_STEP = 0.02, 0.1
MOST_STEPS = 32
LARGEST_ERROR = 10.0  # of the energy, either way: beyond it a trajectory has not followed the slope at all
FARTHEST = 1e4  # in a whitened direction: nothing overflows before such a trajectory is refused
WARM_UP, ROUND, MOST_ROUNDS = 120, 120, 4  # trajectories of every chain
LARGEST_R_HAT, ENOUGH = 1.03, 1000.0  # of the quantity that mixed worst
ADMISSIBLE_R_HAT, LEAST = 1.05, 300.0  # with which the last round may end
COLUMNS = 64  # quantities whose spectra are held at once

Told = Callable[[int, int, float], None]


class Target(Protocol):
    """What is sampled: a likelihood over positions (chains, d) whose prior is standard normal."""

    def height(self, x: FloatArray) -> FloatArray:
        """(chains,) the log likelihood."""

    def slope(self, x: FloatArray) -> FloatArray:
        """(chains, d) its gradient."""

    def renewed(self, x: FloatArray, rng: np.random.Generator) -> FloatArray:
        """The positions after what is not among them has been drawn anew; `height` and `slope` follow it."""

    def seen(self, x: FloatArray) -> FloatArray:
        """(chains, q) the quantities that must mix."""

    def keep(self, x: FloatArray) -> None:
        """These positions are draws."""


@dataclass
class Pace:
    """The length of a step, found in the warm-up by dual averaging (Hoffman and Gelman 2014)."""

    step: float = FIRST_STEP
    smooth: float = float(np.log(FIRST_STEP))
    error: float = 0.0
    count: int = 0

    def learn(self, acceptance: float) -> None:
        """The trajectories were accepted so often."""
        self.count += 1
        self.error += (WANTED_ACCEPTANCE - acceptance - self.error) / (self.count + 10.0)
        log_step = min(np.log(USUAL_STEP) - np.sqrt(self.count) / 0.05 * self.error, np.log(QUARTER))
        self.smooth += self.count**-0.75 * (log_step - self.smooth)
        self.step = float(np.exp(log_step))

    def settle(self) -> None:
        """The warm-up is over: the length stays."""
        self.step = float(np.exp(self.smooth))


@dataclass(frozen=True)
class Mixing:
    """How far the draws can be trusted, by the quantity that mixed worst, itself or squared."""

    r_hat: float
    effective: float  # independent draws that they are worth
    trajectories: int  # of every chain, after the warm-up
    step: float

    @classmethod
    def of(cls, draws: FloatArray, step: float) -> Mixing:
        """The mixing of draws (chains, n, q)."""
        r_hat, effective = 1.0, float(np.inf)
        for start in range(0, draws.shape[2], COLUMNS):
            part = draws[:, :, start : start + COLUMNS]
            for each in (part, np.square(part - part.mean(axis=(0, 1)))):
                r_hat = max(r_hat, float(split_r_hat(each).max()))
                effective = min(effective, float(effective_size(each).min()))
        return cls(r_hat, effective, draws.shape[1], step)

    @property
    def well(self) -> bool:
        """Whether no further draws are needed."""
        return self.r_hat <= LARGEST_R_HAT and self.effective >= ENOUGH

    @property
    def usable(self) -> bool:
        """Whether they will do where there is time for no more."""
        return self.r_hat <= ADMISSIBLE_R_HAT and self.effective >= LEAST


def sample(target: Target, x: FloatArray, rng: np.random.Generator, told: Told) -> Mixing:
    """The target keeps draws of its posterior, round after round until they are enough; says how well they mixed."""
    pace, most = Pace(), WARM_UP + MOST_ROUNDS * ROUND
    for done in range(WARM_UP):
        x, acceptance = trajectory(target, x, pace.step, rng)
        x = target.renewed(x, rng)
        pace.learn(acceptance)
        told(done + 1, most, pace.step)
    pace.settle()
    seen: list[FloatArray] = []
    mixing = Mixing(np.inf, 0.0, 0, pace.step)
    while not mixing.well and len(seen) < MOST_ROUNDS * ROUND:
        for _ in range(ROUND):
            x, _ = trajectory(target, x, pace.step, rng)
            x = target.renewed(x, rng)
            target.keep(x)
            seen.append(target.seen(x))
            told(WARM_UP + len(seen), most, pace.step)
        mixing = Mixing.of(np.stack(seen, axis=1), pace.step)
    return mixing


def trajectory(target: Target, x: FloatArray, step: float, rng: np.random.Generator) -> tuple[FloatArray, float]:
    """The positions after one trajectory of every chain, and how often it was accepted.

    Too large an error either way is refused: seen from the other end it has the same size, so the balance is kept.
    """
    steps = int(np.clip(np.ceil(QUARTER / step * rng.uniform(0.5, 1.5)), 1, MOST_STEPS))
    angle = (step * rng.uniform(0.8, 1.2, len(x)))[:, None]
    cos, sin = np.cos(angle), np.sin(angle)
    p = rng.standard_normal(x.shape)
    before = target.height(x) - energy(x, p)
    moved, p = x, p + 0.5 * angle * target.slope(x)
    for left in range(steps - 1, -1, -1):
        moved, p = limited(cos * moved + sin * p), cos * p - sin * moved
        p = limited(p + (angle if left else 0.5 * angle) * target.slope(moved))
    error = target.height(moved) - energy(moved, p) - before
    chance = np.where(np.abs(error) < LARGEST_ERROR, np.exp(np.minimum(error, 0.0)), 0.0)
    accepted = rng.random(len(x)) < chance
    return np.where(accepted[:, None], moved, x), float(chance.mean())


def energy(x: FloatArray, p: FloatArray) -> FloatArray:
    """Of the prior and of the momentum."""
    return np.asarray(0.5 * (np.square(x).sum(axis=1) + np.square(p).sum(axis=1)))


def limited(x: FloatArray) -> FloatArray:
    """Within FARTHEST of the origin."""
    return np.asarray(np.clip(x, -FARTHEST, FARTHEST))


def split_r_hat(draws: FloatArray) -> FloatArray:
    """(q,) the potential scale reduction over halves of chains (chains, n, q): near 1 where they agree."""
    n = draws.shape[1] // 2
    halves = np.concatenate((draws[:, :n], draws[:, -n:]))
    within = halves.var(axis=1, ddof=1).mean(axis=0)
    between = halves.mean(axis=1).var(axis=0, ddof=1)
    moving = within > 0
    ratio = between / np.where(moving, within, 1.0) + (n - 1) / n
    return np.asarray(np.where(moving, np.sqrt(ratio), np.where(between > 0, np.inf, 1.0)))


def effective_size(draws: FloatArray) -> FloatArray:
    """(q,) how many independent draws these (chains, n, q) are worth, by Geyer's initial monotone sequence."""
    K, n, _ = draws.shape
    spectrum = np.fft.rfft(draws - draws.mean(axis=1, keepdims=True), 2 * n, axis=1)
    autocovariance = np.fft.irfft(np.square(np.abs(spectrum)), axis=1)[:, :n].mean(axis=0) / n
    within = autocovariance[0] * n / (n - 1)
    total = autocovariance[0] + draws.mean(axis=1).var(axis=0, ddof=1)
    rho = 1.0 - (within - autocovariance) / np.where(total > 0, total, 1.0)
    rho[0] = 1.0
    pairs = rho[: n // 2 * 2].reshape(n // 2, 2, -1).sum(axis=1)
    positive = np.logical_and.accumulate(pairs > 0, axis=0)
    monotone = np.minimum.accumulate(np.where(positive, pairs, 0.0), axis=0)
    length = np.maximum(2.0 * monotone.sum(axis=0) - 1.0, 1.0 / np.log10(K * n))
    return np.asarray(np.where(total > 0, K * n / length, float(K * n)))
