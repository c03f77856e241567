"""The predicting half of the estimator's contract."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from .arrays import FloatArray, IntArray
from .checks import chosen, one_of, optional_matrix, same_length
from .display import Axes, displayed
from .drawn import DrawnPredictor
from .feeding import batch_posterior, users_again
from .finish import refresh_intervals
from .inducing import CHUNK_ITEMS, ItemView, gathered
from .inference import Rules
from .intervals import Contrast, PersonalIntervals
from .posterior import Posterior
from .predict import Predictor
from .refining import Draws, hindrance
from .rest import RestPredictor
from .sampling import Mixing
from .sources import LabelSource
from .users import KeptMeans, Users


class Predictions:
    """What a fitted model says of items and users, seen or new.

    Rows of X_items (X_users) given here were never seen: row j has the index n_items_ + j (n_users_ + j).
    """

    scales: str
    v_prior: tuple[float, float]
    w_prior: tuple[float, float]
    random_state: int
    batch_size: int | None
    n_items_: int
    n_users_: int
    _posterior: Posterior | None = None
    _axes: Axes | None = None
    _bound: float | None = None
    _source: LabelSource | None = None
    _draws: Draws | None = None  # of the exact posterior, while no label has come or gone since

    @property
    def _rules(self) -> Rules:
        raise NotImplementedError

    @property
    def _post(self) -> Posterior:
        if self._posterior is None:
            raise ValueError("The model has not been fitted yet.")
        return self._posterior

    def _predictor(self, X_items: FloatArray | None, X_users: FloatArray | None) -> Predictor:
        post, view = self._post, self._view(X_items)
        users = post.users if X_users is None else self._with_strangers(post, X_users)
        refresh_intervals(post)
        finish = post.finish
        S_t = post.items.cov[0] if finish is None else finish.S_t
        parts = (view, post.items, post.scale_items.mean, users.W, users.Omega, post.scale_users.mean, S_t)
        if self._draws is not None:
            return DrawnPredictor(*parts, self._draws)
        if finish is None or not finish.personal:
            return Predictor(*parts)
        return RestPredictor(*parts, post, finish)

    def _view(self, X_items: FloatArray | None) -> ItemView:
        """Known items, and new ones after them, in the directions that predictions use."""
        space = self._post.space if self._draws is None else self._draws.space
        return space.view(X_items, 0 if X_items is None else len(X_items))

    @property
    def _reading(self) -> tuple[LabelSource, Rules, int]:
        """How a model that was fed by a source makes its users again."""
        if self._source is None or self.batch_size is None:
            raise ValueError("What is known of single users is made from their labels: give from_state the source.")
        return self._source, self._rules, self.batch_size

    def _intervals_of(self, users: IntArray, X_users: FloatArray | None) -> tuple[PersonalIntervals, IntArray]:
        """The intervals of users, from their labels, and the places of these users in them."""
        post = self._post
        refresh_intervals(post)
        finish = post.finish
        S_t, share = (post.items.cov[0], 1.0) if finish is None else (finish.S_t, finish.share)
        if not isinstance(post.users, KeptMeans):
            Omega = post.users.Omega if X_users is None else self._with_strangers(post, X_users).Omega
            return PersonalIntervals(post, S_t, share, Omega), users
        source, rules, _ = self._reading
        distinct, places = np.unique(users, return_inverse=True)
        part = batch_posterior(post, source.of_users(distinct), distinct, rules)
        return PersonalIntervals(part, S_t, share, part.users.Omega), places.astype(np.int64)

    def _predictor_of(
        self, users: IntArray, X_items: FloatArray | None, X_users: FloatArray | None
    ) -> tuple[Predictor, IntArray]:
        """A predictor that knows these users' covariances, and their places in it."""
        post = self._post
        if not isinstance(post.users, KeptMeans):
            return self._predictor(X_items, X_users), users
        distinct, places = np.unique(users, return_inverse=True)
        W, Omega = users_again(post, *self._reading, distinct)
        return replace(self._predictor(X_items, None), W=W, Omega=Omega), places.astype(np.int64)

    def _with_strangers(self, post: Posterior, X_users: FloatArray) -> Users:
        users = post.users.grown(len(post.users.W) + len(X_users), post.s_w)
        if post.traits is not None:
            mean, variance = post.traits.expect(X_users, post.scale_users.mean)
            new = slice(len(post.users.W), None)
            users.W[new] = users.g[new] = mean
            users.Omega[new] = variance[:, :, None] * np.eye(mean.shape[1])
        return users

    def predict_consensus(
        self,
        items: npt.ArrayLike | None = None,
        X_items: npt.ArrayLike | None = None,
        return_std: bool = False,
        return_cov: bool = False,
    ) -> Any:
        """t at these items; with return_std also its standard deviations, with return_cov its covariance."""
        X = optional_matrix(X_items, "X_items")
        predictor = self._predictor(X, None)
        i = chosen(items, self.n_items_, X, "items")
        mean = predictor.consensus_mean(i)
        if return_cov:
            return mean, predictor.consensus_covariance(i)
        if return_std:
            F, rest = predictor.consensus_factors(i)
            return mean, np.sqrt((F * F).sum(axis=1) + rest)
        return mean

    def predict_consensus_factors(self, items: npt.ArrayLike) -> tuple[FloatArray, FloatArray, FloatArray]:
        """t at these items, and its covariance as F F^T + diag(r): for more items than a matrix of pairs allows."""
        predictor = self._predictor(None, None)
        i = chosen(items, self.n_items_, None, "items")
        return predictor.consensus_mean(i), *predictor.consensus_factors(i)

    def draw_consensus(self, items: npt.ArrayLike) -> FloatArray | None:
        """(draws, items) t in every draw of a refined model; None where there are no draws."""
        predictor = self._predictor(None, None)
        if not isinstance(predictor, DrawnPredictor):
            return None
        return predictor.consensus_draws(chosen(items, self.n_items_, None, "items"))

    @property
    def refined_(self) -> Mixing | None:
        """How well the draws mixed from which everything is predicted; None where the model is not refined."""
        return None if self._draws is None else self._draws.mixing

    def unrefined(self) -> Self:
        """The same model without its draws: that of which the components are."""
        plain = copy(self)
        plain._draws = None
        return plain

    @property
    def hindrance_(self) -> str:
        """Why `refine` would refuse these data, in words; empty if it would not."""
        return hindrance(self._post)

    def predict_utilities(
        self,
        users: npt.ArrayLike | None = None,
        items: npt.ArrayLike | None = None,
        X_items: npt.ArrayLike | None = None,
        X_users: npt.ArrayLike | None = None,
        return_std: bool = False,
        among: npt.ArrayLike | None = None,
    ) -> Any:
        """E[F], (items, users); with return_std also its standard deviations.

        Utilities are known only up to a constant: with `among`, deviations are of how far each item is from the mean
        of those items.
        """
        X, Z = optional_matrix(X_items, "X_items"), optional_matrix(X_users, "X_users")
        i, u = chosen(items, self.n_items_, X, "items"), chosen(users, self.n_users_, Z, "users")
        mean = self._predictor(X, Z).utilities(u, i)
        return (mean, self._personal_sd(u, i, X, Z, among)) if return_std else mean

    def predict_differences(
        self, users: npt.ArrayLike | None = None, items: npt.ArrayLike | None = None, among: npt.ArrayLike | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """What is a user's own, E[F - t], (items, users), and its standard deviations as in predict_utilities."""
        i, u = chosen(items, self.n_items_, None, "items"), chosen(users, self.n_users_, None, "users")
        predictor = self._predictor(None, None)
        mean = predictor.utilities(u, i) - predictor.consensus_mean(i)[:, None]
        return np.asarray(mean), self._personal_sd(u, i, None, None, among, own=True)

    def _personal_sd(
        self,
        users: IntArray,
        items: IntArray,
        X_items: FloatArray | None,
        X_users: FloatArray | None,
        among: npt.ArrayLike | None,
        own: bool = False,
    ) -> FloatArray:
        others = None if among is None else chosen(among, self.n_items_, X_items, "among")
        return self._sd_at(Contrast.of(self._view(X_items), items, others), users, X_users, own)

    def _sd_at(self, at: Contrast, users: IntArray, X_users: FloatArray | None = None, own: bool = False) -> FloatArray:
        """(n, users): the deviations of utilities at these rows, or (own) of their differences from t."""
        predictor = None if self._draws is None else self._predictor(None, X_users)
        if isinstance(predictor, DrawnPredictor):
            return predictor.personal_sd(users, at, own)
        intervals, places = self._intervals_of(users, X_users)
        return intervals.sd(places, at, own)

    def predict_proba(
        self,
        u: npt.ArrayLike,
        a: npt.ArrayLike,
        b: npt.ArrayLike,
        X_items: npt.ArrayLike | None = None,
        X_users: npt.ArrayLike | None = None,
    ) -> FloatArray:
        """P(user u prefers a to b), for each triple."""
        X, Z = optional_matrix(X_items, "X_items"), optional_matrix(X_users, "X_users")
        users = chosen(u, self.n_users_, Z, "u")
        i, j = chosen(a, self.n_items_, X, "a"), chosen(b, self.n_items_, X, "b")
        same_length(users, i, j)
        predictor, places = self._predictor_of(users, X, Z)
        return predictor.proba(places, i, j, self._sharpness(users))

    def predict_gaps(self, u: npt.ArrayLike, a: npt.ArrayLike, b: npt.ArrayLike) -> FloatArray:
        """E[f_u(a) - f_u(b)] for each triple of a known user and known items: `predict_proba` without its variance."""
        users = chosen(u, self.n_users_, None, "u")
        i, j = chosen(a, self.n_items_, None, "a"), chosen(b, self.n_items_, None, "b")
        same_length(users, i, j)
        return self._predictor(None, None).gaps(users, i, j)

    def _sharpness(self, users: IntArray) -> FloatArray | float:
        return 1.0 if self._post.reliability is None else self._post.reliability.of(users)

    @property
    def X_users_(self) -> FloatArray | None:
        """(U, E) the traits by which users are known; None where the model knows none."""
        return None if self._post.traits is None else self._post.traits.space.X

    @property
    def reliability_(self) -> FloatArray:
        """(U,) how sharply each user's answers follow their preferences: 1 as the model expects, near 0 a coin."""
        judged = self._post.reliability
        return np.ones(self.n_users_) if judged is None else judged.a.copy()

    def predict_consensus_proba(
        self,
        a: npt.ArrayLike,
        b: npt.ArrayLike,
        kind: str = "typical",
        n_workers: int | None = None,
        X_items: npt.ArrayLike | None = None,
    ) -> FloatArray:
        """P(a preferred to b) by a typical worker (w = 0), or by the mean or the majority of n new ones."""
        one_of(kind, ("typical", "mean", "majority"), "kind")
        X = optional_matrix(X_items, "X_items")
        predictor = self._predictor(X, None)
        i, j = chosen(a, self.n_items_, X, "a"), chosen(b, self.n_items_, X, "b")
        same_length(i, j)
        if kind == "typical":
            return predictor.typical_proba(i, j)
        if n_workers is None or n_workers < 1:
            raise ValueError(f"The {kind} of new workers needs n_workers, at least 1.")
        if kind == "mean":
            return predictor.mean_proba(i, j, n_workers)
        return predictor.majority_proba(i, j, n_workers, np.random.default_rng(self.random_state))

    def similarity(self, items: npt.ArrayLike, X_items: npt.ArrayLike | None = None) -> FloatArray:
        """(items, N): the prior correlation of these items with every known one, 1 for items that read the same."""
        X, space = optional_matrix(X_items, "X_items"), self._post.space
        i = chosen(items, self.n_items_, X, "items")
        if space.kernel is None or space.X is None:
            return np.asarray((i[:, None] == np.arange(space.n_items)).astype(np.float64))
        rows, known = gathered(space.X, X, i), range(0, space.n_items, CHUNK_ITEMS)
        alike = np.hstack([space.kernel(rows, space.X[start : start + CHUNK_ITEMS]) for start in known])
        sizes = np.outer(space.kernel.diagonal(rows), space.own_variances)
        return np.asarray(alike / np.sqrt(np.maximum(sizes, 1e-300)))

    @property
    def _displayed(self) -> Axes:
        if self._axes is None:
            self._axes = displayed(self._post, self.scales == "shared", self.v_prior, self.w_prior)
        return self._axes

    @property
    def item_components_(self) -> FloatArray:
        """(C, N): v_c at the items; principal axes in order of energy where the scales are shared.

        Components are those of the fit, refined or not: which taste is which means nothing in a draw.
        """
        return self._displayed.items

    @property
    def user_components_(self) -> FloatArray:
        """(C, U): w_c of the users."""
        return self._displayed.users

    @property
    def component_variances_(self) -> FloatArray:
        """(C,) the paper's 1 / (E[s_v] E[s_w]); it returns to its prior where a component gets no data."""
        return self._displayed.variances

    @property
    def prior_component_variance_(self) -> FloatArray:
        """(C,) what `component_variances_` is before any label: a component that gets no data shows this value."""
        return self._displayed.prior_variances

    @property
    def component_energy_(self) -> FloatArray:
        """(C,) mean over users and items of (E[v_ci] E[w_uc])^2, v centred over items: what is in use."""
        return self._displayed.energy
