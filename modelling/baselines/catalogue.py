"""The catalogue of methods that `manage.py evaluate`, the scoreboards and the paper's experiments can compare."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from modelling.baselines.bradley_terry import BradleyTerry
from modelling.baselines.collab_gp import CollabGP
from modelling.baselines.crowd_bt import CrowdBT, CrowdBTGP
from modelling.baselines.gppl_per_user import GPPLPerUser
from modelling.baselines.gpvu import GPVU
from modelling.baselines.linear import LinearPreference
from modelling.baselines.paper_svi import PaperSVI
from modelling.baselines.thurstone_mosteller import ThurstoneMosteller
from modelling.crowdgppl import CrowdGPPL, PairwiseLabels
from modelling.crowdgppl.arrays import FloatArray
from modelling.crowdgppl.kernels import Kernel

ITEM_FEATURES, USER_FEATURES = "item features", "user features"
Estimator = Any  # has the interface of CrowdGPPL: fit, predict_consensus, predict_utilities, predict_proba, ...


@dataclass(frozen=True)
class Method:
    """A method that predicts preferences, and the features that it learns from besides the labels."""

    name: str
    title: str
    description: str
    make: Callable[..., Estimator]  # with keyword arguments of the estimator
    uses: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()  # cannot be fitted without them
    takes_kernel: bool = True
    seeded: bool = False
    personal: bool = True  # predicts each user's own preferences, not only the consensus
    estimator: type[Any] = CrowdGPPL

    def build(self, kernel: Kernel | None = None, seed: int = 0, **settings: Any) -> Estimator:
        """An unfitted estimator; `settings` override its arguments."""
        if self.takes_kernel:
            settings.setdefault("item_kernel", kernel)
        if self.seeded:
            settings.setdefault("random_state", seed)
        return self.make(**settings)

    def fit(
        self, labels: PairwiseLabels, *, X_items: FloatArray | None = None, X_users: FloatArray | None = None,
        n_items: int | None = None, n_users: int | None = None, kernel: Kernel | None = None, seed: int = 0,
        **settings: Any,
    ) -> Estimator:  # fmt: skip
        """Fit with the features that this method uses; the others are dropped."""
        n_items, n_users = _size(n_items, X_items), _size(n_users, X_users)
        X = X_items if ITEM_FEATURES in self.uses else None
        Z = X_users if USER_FEATURES in self.uses else None
        model = self.build(kernel, seed, **settings)
        return model.fit(labels, X_items=X, X_users=Z, n_items=n_items, n_users=n_users)

    def new_rows(self, X_items: FloatArray | None = None, X_users: FloatArray | None = None) -> dict[str, FloatArray]:
        """Keyword arguments for predicting new items and users, without the features that this method does not use."""
        given = {"X_items": (X_items, ITEM_FEATURES), "X_users": (X_users, USER_FEATURES)}
        return {name: rows for name, (rows, kind) in given.items() if rows is not None and kind in self.uses}


def _size(stated: int | None, X: FloatArray | None) -> int | None:
    return len(X) if stated is None and X is not None else stated


def _crowd(**fixed: Any) -> Callable[..., CrowdGPPL]:
    return lambda **settings: CrowdGPPL(**{**fixed, **settings})


def _paper(**fixed: Any) -> Callable[..., PaperSVI]:
    return lambda **settings: PaperSVI(**{**fixed, **settings})


BOTH, ITEMS = (ITEM_FEATURES, USER_FEATURES), (ITEM_FEATURES,)

_METHODS = (
    Method("crowdgppl", "crowdGPPL", "Concord's engine: consensus and tastes, users integrated out, no inducing "
           "points.", _crowd(), BOTH, seeded=True),
    Method("crowdgppl_no_user", "crowdGPPL \\u", "crowdGPPL without user features.", _crowd(), ITEMS, seeded=True),
    Method("crowdgppl_no_features", "crowdGPPL \\u\\x", "crowdGPPL without user and item features.", _crowd(),
           seeded=True),
    Method("crowdgppl_no_consensus", "crowdGPPL \\u\\t", "crowdGPPL without consensus and user features.",
           _crowd(consensus=False), ITEMS, seeded=True),
    Method("gppl", "GPPL", "One utility function for everyone (Chu and Ghahramani 2005).", _crowd(n_components=0),
           ITEMS, seeded=True, personal=False),
    Method("gppl_per_user", "GPPL per user", "A separate utility function for each user.", GPPLPerUser, ITEMS,
           estimator=GPPLPerUser),
    Method("paper_svi", "paper SVI", "The paper's Algorithm 2, its misprints corrected.", _paper(), BOTH,
           seeded=True, estimator=PaperSVI),
    Method("paper_svi_no_inducing", "paper SVI \\inducing", "Algorithm 2 with every item and user as inducing point.",
           _paper(n_inducing_items=None, n_inducing_users=None), BOTH, seeded=True, estimator=PaperSVI),
    Method("paper_svi_no_user", "paper SVI \\u", "Algorithm 2 without user features.", _paper(), ITEMS, seeded=True,
           estimator=PaperSVI),
    Method("paper_svi_no_features", "paper SVI \\u\\x", "Algorithm 2 without user and item features.", _paper(),
           seeded=True, estimator=PaperSVI),
    Method("paper_svi_no_consensus", "paper SVI \\u\\t", "Algorithm 2 without consensus and user features.",
           _paper(consensus=False), ITEMS, seeded=True, estimator=PaperSVI),
    Method("crowd_bt", "crowdBT", "Bradley-Terry with an accuracy for each worker (Chen et al. 2013).", CrowdBT,
           takes_kernel=False, estimator=CrowdBT),
    Method("crowd_bt_gp", "crowdBT-GP", "The scores and variances of crowdBT in a Gaussian process.", CrowdBTGP, ITEMS,
           needs=ITEMS, estimator=CrowdBTGP),
    Method("collab_gp", "collabGP", "Products of processes over users and pairs (Houlsby et al. 2012).", CollabGP,
           BOTH, seeded=True, estimator=CollabGP),
    Method("collab_gp_no_user", "collabGP \\u", "collabGP without user features.", CollabGP, ITEMS, seeded=True,
           estimator=CollabGP),
    Method("gpvu", "GPVU", "A process for each user plus matrix factorisation (Khan et al. 2014).", GPVU, ITEMS,
           seeded=True, estimator=GPVU),
    Method("bradley_terry", "Bradley-Terry", "One score per item, logistic; other items by regression on features.",
           BradleyTerry, ITEMS, personal=False, estimator=BradleyTerry),
    Method("thurstone_mosteller", "Thurstone-Mosteller", "One score per item, probit.", ThurstoneMosteller,
           takes_kernel=False, personal=False, estimator=ThurstoneMosteller),
    Method("linear", "linear", "Logistic regression on differences of features.", LinearPreference, ITEMS, needs=ITEMS,
           takes_kernel=False, personal=False, estimator=LinearPreference),
)  # fmt: skip

CATALOGUE = {method.name: method for method in _METHODS}


def find_methods(names: list[str]) -> list[Method]:
    """The methods with these names, in this order; raise ValueError, listing the existing names, if one is unknown."""
    unknown = [name for name in names if name not in CATALOGUE]
    if unknown:
        raise ValueError(f"There is no method {', '.join(unknown)}. There are: {', '.join(CATALOGUE)}.")
    return [CATALOGUE[name] for name in dict.fromkeys(names)]
