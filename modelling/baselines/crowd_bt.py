"""CrowdBT (Chen et al. 2013): Bradley-Terry with an accuracy for each worker; and a GP fitted to its scores."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import numpy.typing as npt
from scipy.special import expit, log_expit

from modelling.baselines.base import Baseline, Moments, NewRows
from modelling.baselines.bradley_terry import MAX_REGRESSION, spread
from modelling.baselines.gaussian_process import Regression
from modelling.baselines.newton import Evaluation, Posterior, maximise, score_posterior
from modelling.crowdgppl.arrays import FloatArray, IntArray
from modelling.crowdgppl.kernels import Kernel, Matern32
from modelling.crowdgppl.labels import PairwiseLabels, indices
from modelling.crowdgppl.predictions import majority

MAX_STEPS, TOLERANCE = 200, 1e-5  # for EM


class CrowdBT(Baseline):
    """P(u prefers a) = eta_u sigma(f_a - f_b) + (1 - eta_u) sigma(f_b - f_a).

    A worker with accuracy eta_u gives the Bradley-Terry answer with probability eta_u and the opposite one otherwise;
    differences between workers are errors. f ~ N(0, I / ridge) and eta_u ~ Beta(prior); both are estimated by their
    posterior modes, using EM with latent errors. A tie is half an answer each way. The variance of a score is
    1 / (prior precision + Fisher information), given the other scores.
    """

    SETTINGS: ClassVar[tuple[str, ...]] = ("ridge", "prior")
    FITTED: ClassVar[tuple[str, ...]] = ("scores", "variances", "accuracy")
    scores: FloatArray  # (N,)
    variances: FloatArray  # (N,)
    accuracy: FloatArray  # (U,) eta

    def __init__(self, ridge: float = 1.0, prior: tuple[float, float] = (10.0, 1.0)) -> None:
        """`prior` holds the parameters of the accuracies' Beta prior; Chen et al. use (10, 1)."""
        if not ridge > 0:
            raise ValueError("ridge must be a positive number.")
        if min(prior) < 1:
            raise ValueError("Both parameters of the prior must be at least 1.")
        self.ridge, self.prior = ridge, prior

    def _fit(self, labels: PairwiseLabels, X_items: FloatArray | None, X_users: FloatArray | None) -> None:
        """Run EM: estimate the probability that each answer is not an error, then the scores and the accuracies."""
        u, a, b, weight = split_ties(labels)
        more, less = self.prior
        n_labels = np.bincount(u, weight, self.n_users_)
        f, eta = np.zeros(self.n_items_), np.full(self.n_users_, more / (more + less))
        for _ in range(MAX_STEPS):
            meant = meant_probability(f[a] - f[b], eta[u])
            f_new, _ = maximise(self._expected(a, b, weight, meant), f)
            eta_new = (more - 1.0 + np.bincount(u, weight * meant, self.n_users_)) / (more + less - 2.0 + n_labels)
            change = max(np.abs(f_new - f).max(), np.abs(eta_new - eta).max())
            f, eta = f_new, np.asarray(eta_new)
            if change < TOLERANCE:
                break
        self.scores, self.accuracy = f, eta
        information = weight * label_information(f[a] - f[b], eta[u])
        n = self.n_items_
        precision = self.ridge + np.bincount(a, information, n) + np.bincount(b, information, n)
        self.variances = np.asarray(1.0 / precision)

    def _expected(self, a: IntArray, b: IntArray, weight: FloatArray, meant: FloatArray) -> Posterior:
        """The expected log posterior of the scores: Bradley-Terry with answers weighted by P(not an error)."""

        def posterior(f: FloatArray) -> Evaluation:
            z = f[a] - f[b]
            p = expit(z)
            value = weight * (meant * log_expit(z) + (1.0 - meant) * log_expit(-z))
            return score_posterior(f, a, b, (value, weight * (meant - p), weight * p * (1.0 - p)), self.ridge)

        return posterior

    def _moments(self, user: int | None, items: IntArray, new: NewRows) -> Moments:
        """Means and variances of the scores; the prior for new items."""
        n_new = 0 if new.items is None else len(new.items)
        scores = np.append(self.scores, np.zeros(n_new))
        return scores[items], np.append(self.variances, np.full(n_new, 1.0 / self.ridge))[items]

    def _link(self, mean: FloatArray, variance: FloatArray) -> FloatArray:
        """P(a wins) for an accurate worker, with MacKay's approximation of the expected logistic."""
        return np.asarray(expit(mean / np.sqrt(1.0 + np.pi * variance / 8.0)))

    def predict_proba(
        self, u: npt.ArrayLike, a: npt.ArrayLike, b: npt.ArrayLike,
        X_items: npt.ArrayLike | None = None, X_users: npt.ArrayLike | None = None,
    ) -> FloatArray:  # fmt: skip
        """P(user u prefers a to b), from the scores and the user's accuracy."""
        new, users = NewRows.of(X_items), indices(u, "u")
        p = self._link(*self._difference(None, self._items(a, new), self._items(b, new), new))
        eta = np.append(self.accuracy, self.expected_accuracy)[np.minimum(users, self.n_users_)]
        return eta * p + (1.0 - eta) * (1.0 - p)

    def predict_consensus_proba(
        self, a: npt.ArrayLike, b: npt.ArrayLike, kind: str = "mean", n_workers: int = 1,
        X_items: npt.ArrayLike | None = None,
    ) -> FloatArray:  # fmt: skip
        """P(a preferred to b) by an accurate worker (typical, mean), or by the majority of n workers of the crowd."""
        if kind != "majority":
            return super().predict_consensus_proba(a, b, kind, n_workers, X_items)
        p = super().predict_consensus_proba(a, b, "typical", 1, X_items)
        eta = float(np.mean(self.accuracy))
        return majority(eta * p + (1.0 - eta) * (1.0 - p), n_workers)

    @property
    def expected_accuracy(self) -> float:
        """Accuracy of a worker without labels."""
        return self.prior[0] / sum(self.prior)


class CrowdBTGP(CrowdBT):
    """The paper's crowdBT-GP: a GP regression on crowdBT's scores, with their variances as noise.

    The GP predicts every item, with labels or without. Its scale maximises the marginal likelihood.
    """

    SETTINGS: ClassVar[tuple[str, ...]] = ("ridge", "prior", "item_kernel")
    FITTED: ClassVar[tuple[str, ...]] = (*CrowdBT.FITTED, "labelled", "X")
    labelled: IntArray
    X: FloatArray

    def __init__(
        self, ridge: float = 1.0, prior: tuple[float, float] = (10.0, 1.0), item_kernel: Kernel | None = None
    ) -> None:
        super().__init__(ridge, prior)
        self.item_kernel = Matern32() if item_kernel is None else item_kernel

    def _fit(self, labels: PairwiseLabels, X_items: FloatArray | None, X_users: FloatArray | None) -> None:
        if X_items is None:
            raise ValueError("crowdBT-GP needs features: pass X_items.")
        super()._fit(labels, X_items, X_users)
        self.X = X_items
        self.labelled = spread(np.unique(np.concatenate([labels.a, labels.b])), MAX_REGRESSION)
        self._regression: Regression | None = None

    def _moments(self, user: int | None, items: IntArray, new: NewRows) -> Moments:
        """The GP's prediction."""
        if getattr(self, "_regression", None) is None:
            rows = self.labelled
            kernel = self.item_kernel.fit(self.X)
            self._regression = Regression.fit(kernel, self.X[rows], self.scores[rows], self.variances[rows])
        assert self._regression is not None  # noqa: S101
        X = self.X if new.items is None else np.vstack([self.X, new.items])
        return self._regression.predict(X[items])


def split_ties(labels: PairwiseLabels) -> tuple[IntArray, IntArray, IntArray, FloatArray]:
    """Users, winners, losers and weights; an answer y in (0, 1) counts as y of a win and 1 - y of a loss."""
    won, lost = labels.y > 0, labels.y < 1
    u = np.concatenate([labels.u[won], labels.u[lost]])
    winner = np.concatenate([labels.a[won], labels.b[lost]])
    loser = np.concatenate([labels.b[won], labels.a[lost]])
    weight = np.concatenate([(labels.weights * labels.y)[won], (labels.weights * (1.0 - labels.y))[lost]])
    return u, winner, loser, weight


def meant_probability(z: FloatArray, eta: FloatArray) -> FloatArray:
    """P(the answer is not an error), given that it prefers the first item; z is the difference of the scores."""
    p = expit(z)
    return np.asarray(eta * p / (eta * p + (1.0 - eta) * (1.0 - p)))


def label_information(z: FloatArray, eta: FloatArray) -> FloatArray:
    """Fisher information about z in one answer."""
    p = expit(z)
    q = eta * p + (1.0 - eta) * (1.0 - p)
    slope = (2.0 * eta - 1.0) * p * (1.0 - p)
    return np.asarray(slope**2 / np.maximum(q * (1.0 - q), 1e-300))
