"""How sharply each worker's answers follow their own preferences: y ~ Bernoulli(Phi(a_u z)).

A worker either judges like the crowd (a_u = 1, the model's own noise) or tosses a coin (a_u near 0); what is used is
the mean of the two, so that who may be either counts for less. Here is what is known of the a_u; `judging.py` finds it
out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit, log_ndtr

from .arrays import FloatArray, IntArray

COIN = 0.05  # the sharpness of a coin; 0 itself could not be divided by
SHARP = (0.35, 0.5, 0.7, 1.0, 1.4)  # of the crowd: how far the model that foretells is over- or under-confident
GRID = np.array([COIN, *SHARP])
PRIOR = (1.0, 9.0)  # coins and other workers, as if met before the study
STEPS = 200  # of expectation and maximisation of the share of coins


@dataclass
class Reliability:
    """The sharpness a_u of each worker, and what it rests on."""

    a: FloatArray  # (U,)
    foretold: FloatArray  # (P, K) the log probability of each answer, by a model that had not learned from it
    coins: float = PRIOR[0] / sum(PRIOR)  # their share of the crowd
    typical: int = len(SHARP) - 1  # where in GRID the rest of the crowd stands: what all have in common is not noise

    @classmethod
    def prior(cls, n_users: int, n_labels: int) -> Reliability:
        """Everybody is taken at their word until judged."""
        return cls(np.ones(n_users), np.zeros((n_labels, len(GRID))))

    def copy(self) -> Reliability:
        """The same, independent of this one."""
        return replace(self, a=self.a.copy(), foretold=self.foretold.copy())

    @property
    def stranger(self) -> float:
        """What is expected of somebody of whom nothing is known."""
        return float(sharpness(np.array(self.coins)))

    def grown(self, n_users: int) -> Reliability:
        """With new users, of whom nothing is known."""
        return replace(self, a=np.append(self.a, np.full(n_users - len(self.a), self.stranger)))

    def of(self, users: IntArray) -> FloatArray:
        """The sharpness of these users; indices beyond the known ones are strangers."""
        known = np.minimum(users, len(self.a) - 1)
        return np.where(users < len(self.a), self.a[known], self.stranger)

    def evidence(self, u: IntArray) -> FloatArray:
        """(U, K) the log probability of all answers of each user, u (P,) being whose they are."""
        return np.stack([np.bincount(u, column, len(self.a)) for column in self.foretold.T], axis=1)

    def learn_crowd(self, u: IntArray) -> None:
        """The share of coins and the sharpness of the others with the most evidence in all workers with labels."""
        evidence = self.evidence(u)[np.unique(u)]
        found = [share_of_coins(evidence[:, 0], evidence[:, k]) for k in range(1, len(GRID))]
        self.typical = 1 + int(np.argmax([log_evidence for _, log_evidence in found]))
        self.coins = found[self.typical - 1][0]

    def learn(self, u: IntArray, users: IntArray) -> None:
        """The mean sharpness of these users, given what was foretold of them and what the crowd is like."""
        evidence = self.evidence(u)[users]
        self.a[users] = sharpness(chance_of_coin(evidence[:, 0], evidence[:, self.typical], self.coins))


def sharpness(chance: FloatArray) -> FloatArray:
    """The mean sharpness of somebody who tosses a coin with this chance."""
    return 1.0 - (1.0 - COIN) * chance


def chance_of_coin(coin: FloatArray, sharp: FloatArray, share: float) -> FloatArray:
    """(U,) how likely each worker tosses a coin, from the log probabilities of their answers under both."""
    return np.asarray(expit(coin - sharp + np.log(share) - np.log1p(-share)))


def share_of_coins(coin: FloatArray, sharp: FloatArray) -> tuple[float, float]:
    """The share with the most evidence, and that evidence."""
    share = PRIOR[0] / sum(PRIOR)
    for _ in range(STEPS):
        share = (PRIOR[0] + float(chance_of_coin(coin, sharp, share).sum())) / (sum(PRIOR) + len(coin))
    both = np.logaddexp(np.log(share) + coin, np.log1p(-share) + sharp).sum()
    return share, float(both + PRIOR[0] * np.log(share) + PRIOR[1] * np.log1p(-share))


def answers_foretold(m: FloatArray, v: FloatArray, y: FloatArray, weight: FloatArray) -> FloatArray:
    """(n, K) the log probability of each answer at each sharpness, z being N(m, v).

    A tie says nothing of its worker: coins and careful people give them.
    """
    x = (np.sign(y - 0.5) * m)[:, None] * GRID / np.sqrt(1.0 + v[:, None] * GRID**2)
    return np.asarray((weight * np.abs(2.0 * y - 1.0))[:, None] * log_ndtr(x))
