"""Methods from other packages (extra `rivals`), run as their authors do, for `manage.py evaluate --rivals`.

Only fitting and predicting: no rival is saved or shown on a scoreboard. Items without judgements are predicted as
average, workers without judgements as the crowd.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
from scipy.special import expit, logit, ndtr

from modelling.baselines.catalogue import ITEM_FEATURES, Method
from modelling.crowdgppl import PairwiseLabels
from modelling.crowdgppl.arrays import FloatArray, IntArray

CHOIX_ALPHA = 0.1  # choix needs a penalty where an item has won or lost every pair
MAX_GP_ITEMS, MAX_GP_LABELS = 500, 5_000  # PairwiseGP holds a matrix of labels by items; more labels are sampled
EDGE = 1e-9  # scores that are probabilities stay this far from 0 and 1
SMALLEST = 1e-300  # least score that is a weight: an item that always wins makes all other weights tiny


class Rival:
    """A score per item under the logistic model; a tie is half a win for each side."""

    scores: FloatArray  # (N,)

    def fit(
        self, labels: PairwiseLabels, X_items: FloatArray | None = None, X_users: FloatArray | None = None,
        n_items: int | None = None, n_users: int | None = None,
    ) -> Rival:  # fmt: skip
        self.n_items, self.n_users = n_items or labels.n_items, n_users or labels.n_users
        self._fit(labels, X_items)
        return self

    def _fit(self, labels: PairwiseLabels, X_items: FloatArray | None) -> None:
        raise NotImplementedError

    def predict_proba(self, u: IntArray, a: IntArray, b: IntArray) -> FloatArray:
        return np.asarray(expit(self.scores[a] - self.scores[b]))


class Choix(Rival):
    """choix's penalised maximum-likelihood scores; every answer counts twice, so that a tie can be split."""

    def _fit(self, labels: PairwiseLabels, X_items: FloatArray | None) -> None:
        import choix

        won, lost = labels.y >= 0.5, labels.y <= 0.5
        first = np.concatenate((labels.a[won], labels.b[lost], labels.a[labels.y == 1], labels.b[labels.y == 0]))
        second = np.concatenate((labels.b[won], labels.a[lost], labels.b[labels.y == 1], labels.a[labels.y == 0]))
        pairs = list(zip(first.tolist(), second.tolist(), strict=True))
        self.scores = np.asarray(choix.opt_pairwise(self.n_items, pairs, alpha=2.0 * CHOIX_ALPHA))


class Evalica(Rival):
    """evalica's Bradley-Terry.

    Where no maximum of the likelihood exists (an item has won or lost every pair), release 0.4 gives equal scores.
    """

    def _fit(self, labels: PairwiseLabels, X_items: FloatArray | None) -> None:
        import evalica

        winners = [WINNER_NAMES[y] for y in labels.y.tolist()]
        found = evalica.bradley_terry(
            labels.a.tolist(), labels.b.tolist(), [getattr(evalica.Winner, name) for name in winners]
        )
        self.scores = scores_of(np.log(np.maximum(found.scores, SMALLEST)), self.n_items)


class CrowdKit(Rival):
    """crowd-kit's NoisyBradleyTerry: a skill and a bias towards the left for each worker. It has no ties.

    Its gradient disagrees with finite differences of its own likelihood (release 1.4), so it may stop early.
    """

    def _fit(self, labels: PairwiseLabels, X_items: FloatArray | None) -> None:
        import pandas as pd
        from crowdkit.aggregation import NoisyBradleyTerry

        decided = labels.take(labels.y != 0.5)
        chosen = np.where(decided.y == 1.0, decided.a, decided.b)
        model = NoisyBradleyTerry(n_iter=100)
        columns = {"worker": decided.u, "left": decided.a, "right": decided.b, "label": chosen}
        with np.errstate(all="ignore"):  # its gradient overflows
            model.fit(pd.DataFrame(columns))
        self.scores = scores_of(logit(model.scores_.clip(EDGE, 1 - EDGE)), self.n_items)
        self.skills, self.biases = np.ones(self.n_users), np.full(self.n_users, 0.5)
        self.skills[model.skills_.index], self.biases[model.biases_.index] = model.skills_, model.biases_

    def predict_proba(self, u: IntArray, a: IntArray, b: IntArray) -> FloatArray:
        skill = self.skills[u]
        return np.asarray(skill * super().predict_proba(u, a, b) + (1.0 - skill) * self.biases[u])


class ArenaRank(Rival):
    """The Bradley-Terry model of LMArena's leaderboard."""

    def _fit(self, labels: PairwiseLabels, X_items: FloatArray | None) -> None:
        import pandas as pd
        from arena_rank.models.bradley_terry import BradleyTerry
        from arena_rank.utils.data_utils import PairDataset

        winners = [{1.0: "model_a", 0.0: "model_b"}.get(y, "tie") for y in labels.y.tolist()]
        table = pd.DataFrame({"model_a": labels.a, "model_b": labels.b, "winner": winners})
        dataset = PairDataset.from_pandas(table)
        model = BradleyTerry(n_competitors=len(dataset.competitors)).fit(dataset)
        self.scores = scores_of(
            dict(zip(dataset.competitors, np.asarray(model.params["ratings"]), strict=True)), self.n_items
        )


class BoTorch(Rival):
    """BoTorch's PairwiseGP over the features of the items, by the Laplace approximation. It has no ties."""

    def _fit(self, labels: PairwiseLabels, X_items: FloatArray | None) -> None:
        import torch
        from botorch.fit import fit_gpytorch_mll
        from botorch.models.pairwise_gp import PairwiseGP, PairwiseLaplaceMarginalLogLikelihood

        if X_items is None:
            raise ValueError("PairwiseGP needs item features.")
        decided = labels.take(labels.y != 0.5)
        sample = np.random.default_rng(0).permutation(len(decided))[:MAX_GP_LABELS]
        decided = decided.take(np.sort(sample))
        won = (decided.y == 1.0)[:, None]
        pairs = np.where(won, np.column_stack((decided.a, decided.b)), np.column_stack((decided.b, decided.a)))
        torch.manual_seed(0)
        X = torch.tensor(X_items, dtype=torch.float64)
        model = PairwiseGP(X, torch.tensor(pairs, dtype=torch.long))
        fit_gpytorch_mll(PairwiseLaplaceMarginalLogLikelihood(model.likelihood, model))
        posterior = model.posterior(X)
        self.scores = posterior.mean.detach().numpy().ravel()
        self.covariance = posterior.distribution.covariance_matrix.detach().numpy()

    def predict_proba(self, u: IntArray, a: IntArray, b: IntArray) -> FloatArray:
        C = self.covariance
        variance = np.maximum(C[a, a] + C[b, b] - 2.0 * C[a, b], 0.0)
        return np.asarray(ndtr((self.scores[a] - self.scores[b]) / np.sqrt(2.0 + variance)))


WINNER_NAMES = {1.0: "X", 0.0: "Y", 0.5: "Draw"}


def scores_of(found: Any, n_items: int) -> FloatArray:
    """A score for each item from a mapping or series; items that the package has not seen get the mean."""
    by_item = {int(item): float(score) for item, score in dict(found).items()}
    items, values = np.array(list(by_item), dtype=np.int64), np.array(list(by_item.values()))
    scores = np.full(n_items, values.mean() if len(values) else 0.0)
    scores[items] = values
    return scores


@dataclass(frozen=True)
class RivalPackage:
    """A method, the modules that it needs and how to install them."""

    method: Method
    modules: tuple[str, ...]
    install: str

    @property
    def installed(self) -> bool:
        return all(find_spec(module) is not None for module in self.modules)


def _rival(name: str, title: str, description: str, make: type[Rival], uses: tuple[str, ...] = ()) -> Method:
    shape: dict[str, Any] = {"takes_kernel": False, "personal": False, "estimator": make}
    return Method(name, title, description, make, uses, uses, **shape)


PACKAGES = (
    RivalPackage(_rival("choix", "choix", "choix's penalised Bradley-Terry.", Choix), ("choix",), "pip install choix"),
    RivalPackage(
        _rival("evalica", "evalica", "evalica's Bradley-Terry.", Evalica), ("evalica",), "pip install evalica"
    ),
    RivalPackage(
        _rival("crowd_kit", "crowd-kit NoisyBT", "crowd-kit's NoisyBradleyTerry.", CrowdKit),
        ("crowdkit",),
        "pip install crowd-kit",
    ),
    RivalPackage(
        _rival("botorch", "BoTorch PairwiseGP", "BoTorch's PairwiseGP.", BoTorch, (ITEM_FEATURES,)),
        ("botorch", "torch"),
        "see docs/commands.md",
    ),
    RivalPackage(
        _rival("arena_rank", "arena-rank", "Bradley-Terry of LMArena's leaderboard.", ArenaRank),
        ("arena_rank", "jax"),
        "see docs/commands.md",
    ),
)
RIVALS = {package.method.name: package.method for package in PACKAGES}


def choose_rivals(n_items: int) -> tuple[list[Method], list[str]]:
    """The rivals that can run on a study with this many items, and a sentence about each that cannot."""
    methods, missing = list[Method](), list[str]()
    for package in PACKAGES:
        title = package.method.title
        if not package.installed:
            missing.append(f"{title} is not installed: {package.install}.")
        elif package.method.name == "botorch" and n_items > MAX_GP_ITEMS:
            missing.append(f"{title} is left out: it takes at most {MAX_GP_ITEMS} items here.")
        else:
            methods.append(package.method)
    return methods, missing
