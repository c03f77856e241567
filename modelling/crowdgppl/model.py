"""The estimator: crowdGPPL with users integrated out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from .arrays import FloatArray, IntArray, State, matrix
from .components import component_axes
from .inference import Inference, Options, Trace
from .item_prior import ItemPrior
from .kernels import Kernel, Matern32, correlations
from .labels import ArrayStore, LabelStore, PairwiseLabels, indices
from .posterior import Posterior
from .predictions import (
    centred_variances,
    component_weights,
    consensus_covariance,
    consensus_probability,
    personal_differences,
    personal_utilities,
    probability,
    utility_variances,
)
from .shards import Executor, LocalExecutor
from .state import (
    VERSION,
    from_text,
    kernel_from_text,
    kernel_to_text,
    posterior_from_state,
    posterior_to_state,
    to_text,
)
from .traits import Traits

SETTINGS = (
    "n_components", "consensus", "batch_size", "batch_labels", "forgetting_rate", "delay",
    "reliability", "random_state", "max_iterations",
)  # fmt: skip
REFIT_GROWTH = 1.2  # a full fit is due when the number of labels has grown by this factor


class CrowdGPPL:
    """Preferences of a crowd from pairwise labels: a consensus t and tastes p_u ~ N(0, A), both with a posterior.

    `n_components` limits the number of directions in which tastes are learned freely; 0 is the consensus only.
    """

    def __init__(
        self, n_components: int = 20, item_kernel: Kernel | None = None,
        user_kernel: Kernel | None = None, consensus: bool = True, batch_size: int | None = None,
        batch_labels: int | None = None, forgetting_rate: float = 0.7, delay: float = 1.0, reliability: bool = False,
        random_state: int = 0, max_iterations: int = 60, progress: Callable[[dict[str, float]], None] | None = None,
        executor: Executor | None = None,
    ) -> None:  # fmt: skip
        """A study with more than `batch_size` users or `batch_labels` labels is fitted in mini-batches of users.

        `executor` is where the sums over their users are computed, by default in this process.
        """
        if n_components < 0:
            raise ValueError("n_components must not be negative.")
        if not consensus and n_components == 0:
            raise ValueError("A model without consensus needs components: n_components must be at least 1.")
        if not 0.5 < forgetting_rate <= 1.0:
            raise ValueError("forgetting_rate must lie above 0.5 and not above 1.")
        if delay < 1.0:
            raise ValueError("delay must be at least 1.")
        if batch_size is not None and batch_size < 1:
            raise ValueError("batch_size must be at least 1.")
        if batch_labels is not None and batch_labels < 1:
            raise ValueError("batch_labels must be at least 1.")
        self.n_components, self.consensus = n_components, consensus
        self.item_kernel, self.user_kernel, self.batch_size = item_kernel, user_kernel, batch_size
        self.batch_labels = batch_labels
        self.forgetting_rate, self.delay, self.reliability = forgetting_rate, delay, reliability
        self.random_state, self.max_iterations, self.progress = random_state, max_iterations, progress
        self.executor = executor or LocalExecutor()

    # Fitting

    def fit(
        self, labels: PairwiseLabels | LabelStore, X_items: npt.ArrayLike | None = None,
        X_users: npt.ArrayLike | None = None, n_items: int | None = None, n_users: int | None = None,
    ) -> CrowdGPPL:  # fmt: skip
        """Fit from scratch, to labels in memory or in a store."""
        X, traits = optional(X_items, "X_items"), optional(X_users, "X_users")
        if isinstance(labels, PairwiseLabels):
            n_users = count("users", labels.n_users, n_users, traits)
            n_items = count("items", labels.n_items, n_items, X)
            store: LabelStore = ArrayStore(labels, n_users)
        else:
            store = labels
            n_users = count("users", store.n_users, n_users, traits)
            if n_items is None and X is None:
                raise ValueError("n_items is needed with a store of labels.")
            n_items = count("items", 0, n_items, X)
        if not len(store.active_users()):
            raise ValueError("There are no labels to learn from.")
        kernel = None if X is None else (self.item_kernel or Matern32()).fit(X)
        self._rng = np.random.default_rng(self.random_state)
        self._store, self._traits = store, Traits.of(traits, self.user_kernel)
        self._post = Posterior.start(ItemPrior(n_items, kernel, X), n_users, self.consensus, self.n_components > 0)
        self._n_labels = self._n_labels_at_fit = int(store.count_labels(store.active_users()).sum())
        inference = self._inference()
        trace = inference.fit()
        if self.reliability:
            inference.learn_reliability()
        if self._traits is not None and self._traits.learn(self._post, self._store):
            inference.refresh()
        self._describe(trace)
        return self

    def partial_fit(
        self, labels: PairwiseLabels, X_items: npt.ArrayLike | None = None, X_users: npt.ArrayLike | None = None,
        n_items: int | None = None, n_users: int | None = None,
    ) -> CrowdGPPL:  # fmt: skip
        """Learn from new labels only; X_items, X_users hold the rows of new items and users, or all rows."""
        self._check_fitted()
        self.grow(labels.n_items, labels.n_users, X_items, X_users, n_items, n_users)
        if len(labels):
            self.update_users(np.unique(labels.u), lambda: self._add(labels), n_added=len(labels))
        return self

    def forget(self, labels: PairwiseLabels) -> CrowdGPPL:
        """Remove labels that were learned before; their sites are subtracted exactly."""
        self._check_fitted()
        if not isinstance(self._store, ArrayStore):
            raise ValueError("Labels in a store are removed there; call update_users afterwards.")
        store = self._store
        store.find(labels)  # raises before anything changes
        return self.update_users(np.unique(labels.u), lambda: store.remove(labels), n_removed=len(labels))

    def update_users(
        self, users: npt.ArrayLike, change: Callable[[], None], n_added: int = 0, n_removed: int = 0
    ) -> CrowdGPPL:
        """Learn from labels of these users that `change` adds to, and removes from, the store.

        The users' old contribution is read before `change` is called. Traits and reliability of users who are not
        visited stay as the last fit found them.
        """
        self._check_fitted()
        self._n_labels += n_added - n_removed
        growth = (n_added + n_removed) / max(self._n_labels, 1)
        trace = self._inference().update(indices(users, "users"), change, growth, self.reliability)
        if trace.refitted and self._traits is not None and self._traits.learn(self._post, self._store):
            self._inference().refresh()
        self._describe(trace)
        return self

    def absorb(self, labels: PairwiseLabels) -> CrowdGPPL:
        """Learn from new labels of known items without storing them; only possible without components."""
        self._check_fitted()
        if self._post.personal:
            raise ValueError("A model with components needs the labels of its users: use partial_fit.")
        self._check_range(np.concatenate((labels.a, labels.b)), self._post.n_items, "item")
        self._post.add_users(max(0, labels.n_users - self._post.n_users))
        if len(labels):
            new = ArrayStore(labels, self._post.n_users)
            self._n_labels += len(labels)
            self._describe(self._inference().absorb(new.load(new.active_users())))
        return self

    def use_store(self, store: LabelStore) -> CrowdGPPL:
        """Switch to another store that holds the same labels and sites."""
        self._check_fitted()
        self._store = store
        return self

    @property
    def store(self) -> LabelStore:
        """The store of labels and sites."""
        self._check_fitted()
        return self._store

    def _inference(self) -> Inference:
        options = Options(
            n_components=self.n_components, batch_size=self.batch_size, batch_labels=self.batch_labels,
            forgetting_rate=self.forgetting_rate, delay=self.delay, max_iterations=self.max_iterations,
            progress=self.progress, executor=self.executor,
        )  # fmt: skip
        return Inference(self._store, self._post, options, self._rng)

    def _describe(self, trace: Trace) -> None:
        self.lower_bounds_, self.n_iter_, self.converged_ = trace.evidence, trace.n_iter, trace.converged
        self.warnings_: list[str] = []
        if not self.converged_:
            self.warnings_.append(f"The fit stopped after {self.n_iter_} iterations before its results settled.")

    def _add(self, labels: PairwiseLabels) -> None:
        if not isinstance(self._store, ArrayStore):
            raise ValueError("New labels of a store are added there; call update_users.")
        self._store.add(labels, self._post.n_users)

    def grow(
        self, n_items_seen: int = 0, n_users_seen: int = 0, X_items: npt.ArrayLike | None = None,
        X_users: npt.ArrayLike | None = None, n_items: int | None = None, n_users: int | None = None,
    ) -> CrowdGPPL:  # fmt: skip
        """Make room for new items and users; X_items, X_users hold the rows of the new ones, or of all."""
        self._check_fitted()
        post, X, traits = self._post, optional(X_items, "X_items"), optional(X_users, "X_users")
        known = post.prior.X
        if X is not None and known is not None and len(X) >= len(known) and np.array_equal(X[: len(known)], known):
            X = X[len(known) :]
        n_new = max(0, max(n_items_seen, n_items or 0) - post.n_items)
        if X is not None:
            if known is None:
                raise ValueError("The model was fitted without X_items.")
            if len(X) < n_new:
                raise ValueError(f"There are {n_new} new items, but X_items has rows for {len(X)}.")
            n_new = len(X)
        if n_new:
            post.add_items(X, n_new)
        if traits is not None and self._traits is not None and len(traits) >= self._traits.n_users:
            traits = traits[self._traits.n_users :]
        n_new = max(0, max(n_users_seen, n_users or 0) - post.n_users, 0 if traits is None else len(traits))
        if n_new:
            if self._traits is not None:
                self._traits.add_users(traits, n_new)
            post.add_users(n_new)
            if self._traits is not None and post.trait_weights is not None:
                post.trait_weights[-n_new:] = self._traits.predict(self._traits.X[-n_new:])
            if isinstance(self._store, ArrayStore):
                self._store.add(PairwiseLabels(*(np.zeros(0, dtype=np.int64),) * 3, np.zeros(0)), post.n_users)
        return self

    # Predictions

    def predict_consensus(
        self, items: npt.ArrayLike | None = None, X_items: npt.ArrayLike | None = None, return_std: bool = False,
        return_cov: bool = False,
    ) -> Any:  # fmt: skip
        """Return the posterior mean of t, optionally with standard deviations or the covariance."""
        post, rows = self._with_new_items(items, X_items)
        if return_cov:
            return post.t[rows], consensus_covariance(post)[np.ix_(rows, rows)]
        if return_std:
            return post.t[rows], np.sqrt(np.diagonal(consensus_covariance(post))[rows])
        return post.t[rows]

    def predict_utilities(
        self, users: npt.ArrayLike | None = None, items: npt.ArrayLike | None = None,
        X_items: npt.ArrayLike | None = None, X_users: npt.ArrayLike | None = None, return_std: bool = False,
        among: npt.ArrayLike | None = None,
    ) -> Any:  # fmt: skip
        """Utilities (items, users) relative to each user's mean over the known items, or over `among`."""
        post, rows = self._with_new_items(items, X_items)
        new_traits = optional(X_users, "X_users")
        chosen = self._users(users, new_traits)
        centre = np.arange(self._post.n_items) if among is None else indices(among, "among")
        weights = self._new_weights(new_traits)
        F = personal_utilities(post, self._store, chosen, weights)
        F -= F[centre].mean(axis=0)
        if not return_std:
            return F[rows]
        variances = utility_variances(post, self._store, chosen, centre) + (post.scale_sd * F) ** 2
        return F[rows], np.sqrt(variances[rows])

    def predict_tastes(
        self, users: npt.ArrayLike | None = None, items: npt.ArrayLike | None = None,
        X_items: npt.ArrayLike | None = None, among: npt.ArrayLike | None = None,
    ) -> tuple[FloatArray, FloatArray]:  # fmt: skip
        """Means and standard deviations (items, users) of p_u relative to its mean over the known items or `among`."""
        post, rows = self._with_new_items(items, X_items)
        chosen = self._users(users, None)
        centre = np.arange(self._post.n_items) if among is None else indices(among, "among")
        p = personal_utilities(post, self._store, chosen) - post.t[:, None]
        p -= p[centre].mean(axis=0)
        variances = utility_variances(post, self._store, chosen, centre, own=True) + (post.scale_sd * p) ** 2
        return p[rows], np.sqrt(variances[rows])

    def taste_sds(self, items: npt.ArrayLike, among: npt.ArrayLike | None = None) -> FloatArray:
        """Standard deviation over the crowd, from A, of p_i relative to its mean over all items or `among`."""
        self._check_fitted()
        post, rows = self._post, indices(items, "items")
        if not post.personal:
            return np.zeros(len(rows))
        c = np.zeros(post.n_items)
        c[slice(None) if among is None else indices(among, "among")] = 1.0
        return np.sqrt(centred_variances(post.A, c / c.sum())[rows])

    def similarity(self, items: npt.ArrayLike, X_items: npt.ArrayLike | None = None) -> FloatArray:
        """Prior correlation (items, N) of these items with every known one by their features."""
        self._check_fitted()
        X, prior = optional(X_items, "X_items"), self._post.prior
        rows = indices(items, "items")
        if prior.kernel is None or prior.X is None:
            return np.asarray((rows[:, None] == np.arange(prior.n_items)).astype(np.float64))
        every = prior.X if X is None else np.vstack((prior.X, X))
        self._check_range(rows, len(every), "item")
        return correlations(prior.kernel, every[rows], prior.X)

    def predict_proba(
        self, u: npt.ArrayLike, a: npt.ArrayLike, b: npt.ArrayLike, X_items: npt.ArrayLike | None = None,
        X_users: npt.ArrayLike | None = None, most: int | None = None,
    ) -> FloatArray:  # fmt: skip
        """P(user u prefers a to b), a tie counted as half; `most` limits the labels of a user that are used."""
        mean, variance = self._differences(u, a, b, X_items, X_users, most)
        users = indices(u, "u")
        sharp = np.ones(len(users))
        if self._post.sharpness is not None:
            known = users < self._post.n_users
            sharp[known] = self._post.sharpness[users[known]]
        return probability(self._post, sharp * mean, sharp**2 * variance)

    def predict_differences(
        self, u: npt.ArrayLike, a: npt.ArrayLike, b: npt.ArrayLike, X_items: npt.ArrayLike | None = None,
        X_users: npt.ArrayLike | None = None, most: int | None = None,
    ) -> tuple[FloatArray, FloatArray]:  # fmt: skip
        """Posterior mean and variance of the difference of utilities of a and b for user u."""
        mean, variance = self._differences(u, a, b, X_items, X_users, most)
        return mean, variance + (self._post.scale_sd * mean) ** 2

    def _differences(
        self, u: npt.ArrayLike, a: npt.ArrayLike, b: npt.ArrayLike, X_items: npt.ArrayLike | None,
        X_users: npt.ArrayLike | None, most: int | None,
    ) -> tuple[FloatArray, FloatArray]:  # fmt: skip
        """Mean and variance of the differences of utilities at the learned scale."""
        post, _ = self._with_new_items(None, X_items)
        new_traits = optional(X_users, "X_users")
        users, first, second = indices(u, "u"), indices(a, "a"), indices(b, "b")
        if not len(users) == len(first) == len(second):
            raise ValueError("u, a and b must have the same length.")
        self._check_range(users, self._post.n_users + (0 if new_traits is None else len(new_traits)), "user")
        self._check_range(np.concatenate((first, second)), post.n_items, "item")
        weights = self._new_weights(new_traits)
        return personal_differences(post, self._store, users, first, second, weights, most)

    def predict_consensus_proba(
        self, a: npt.ArrayLike, b: npt.ArrayLike, kind: str = "mean", n_workers: int = 1,
        X_items: npt.ArrayLike | None = None,
    ) -> FloatArray:  # fmt: skip
        """P(a preferred to b): by n new workers (their mean utility or majority), or by a typical one."""
        post, _ = self._with_new_items(None, X_items)
        first, second = indices(a, "a"), indices(b, "b")
        if len(first) != len(second):
            raise ValueError("a and b must have the same length.")
        if n_workers < 1:
            raise ValueError("n_workers must be at least 1.")
        self._check_range(np.concatenate((first, second)), post.n_items, "item")
        return consensus_probability(post, first, second, kind, n_workers)

    # Components

    @property
    def component_variances_(self) -> FloatArray:
        """(C,) mean variance per item of each supported component, descending: the paper's 1 / (s_v s_w)."""
        axes, values = component_axes(self._post)
        return np.asarray(values * (axes**2).mean(axis=0))

    @property
    def item_components_(self) -> FloatArray:
        """(C, N) v_c, scaled so that users' weights have variance 1."""
        axes, values = component_axes(self._post)
        return np.asarray((axes * np.sqrt(values)).T)

    @property
    def user_components_(self) -> FloatArray:
        """(C, U) posterior mean of the weights w_u."""
        return self.predict_weights()[0]

    def predict_weights(self, users: npt.ArrayLike | None = None) -> tuple[FloatArray, FloatArray]:
        """Posterior means (C, users) and covariances (users, C, C) of the weights w_u of known users."""
        self._check_fitted()
        return component_weights(self._post, self._store, self._users(users, None), self.item_components_)

    @property
    def n_items_(self) -> int:
        self._check_fitted()
        return self._post.n_items

    @property
    def n_users_(self) -> int:
        self._check_fitted()
        return self._post.n_users

    @property
    def X_items_(self) -> FloatArray | None:
        """Features (N, D) of the items; None without features."""
        self._check_fitted()
        return self._post.prior.X

    @property
    def X_users_(self) -> FloatArray | None:
        """Traits (U, E) of the users; None without traits, or where all users are alike."""
        self._check_fitted()
        return None if self._traits is None else self._traits.X

    @property
    def reliability_(self) -> FloatArray:
        """(U,) how sharply each user's answers follow their preferences: about 1, or near 0 if at random."""
        self._check_fitted()
        return self._post.sharpness_of(np.arange(self._post.n_users))

    @property
    def hyperparameters_(self) -> dict[str, float]:
        """The learned scales."""
        self._check_fitted()
        post = self._post
        found = {"consensus_variance": post.v_t, "own_taste_variance": post.tau}
        found["taste_variance"] = post.taste_variance
        found["lapse"] = post.response.lapse
        if post.response.margin:
            found["tie_margin"] = post.response.margin
        if post.prior.kernel is not None:
            found["feature_share"] = post.prior.share
            if post.personal:
                found["taste_feature_share"] = post.taste_prior.share
        return found

    @property
    def needs_refit_(self) -> bool:
        """Whether enough labels were added since the last fit to learn scales and components again."""
        self._check_fitted()
        return not self._n_labels_at_fit / REFIT_GROWTH <= self._n_labels <= self._n_labels_at_fit * REFIT_GROWTH

    # State

    def to_state(self) -> State:
        """The model as a flat dict of arrays; with labels in memory their sites are in it too."""
        self._check_fitted()
        state = posterior_to_state(self._post)
        settings = {name: getattr(self, name) for name in SETTINGS}
        fitted = {
            "version": VERSION, "n_labels": self._n_labels, "n_labels_at_fit": self._n_labels_at_fit,
            "rng": self._rng.bit_generator.state, "lower_bounds": [float(x) for x in self.lower_bounds_],
            "n_iter": self.n_iter_, "converged": self.converged_, "warnings": self.warnings_,
        }  # fmt: skip
        state["settings"], state["fitted"] = to_text(settings), to_text(fitted)
        state["given_item_kernel"] = kernel_to_text(self.item_kernel)
        state["given_user_kernel"] = kernel_to_text(self.user_kernel)
        if self._traits is not None:
            state |= self._traits.to_state()
        if isinstance(self._store, ArrayStore):
            state |= self._store.to_state()
        return state

    @classmethod
    def from_state(cls, state: State, store: LabelStore | None = None) -> CrowdGPPL:
        """Restore from `to_state`; `store` holds the labels if they are not in the state."""
        if "fitted" not in state:
            raise ValueError("This state was written by another release of the model.")
        fitted = from_text(state["fitted"])
        if fitted["version"] != VERSION:
            raise ValueError(f"This state has version {fitted['version']}; this release reads version {VERSION}.")
        model = cls(
            **from_text(state["settings"]), item_kernel=kernel_from_text(state["given_item_kernel"]),
            user_kernel=kernel_from_text(state["given_user_kernel"]),
        )  # fmt: skip
        model._post = posterior_from_state(state)
        model._traits = Traits.from_state(state)
        if store is None:
            store = ArrayStore.from_state(state)
        model._store = store
        model._rng = np.random.default_rng()
        model._rng.bit_generator.state = fitted["rng"]
        model._n_labels, model._n_labels_at_fit = fitted["n_labels"], fitted["n_labels_at_fit"]
        model.lower_bounds_, model.n_iter_ = fitted["lower_bounds"], fitted["n_iter"]
        model.converged_, model.warnings_ = fitted["converged"], fitted["warnings"]
        return model

    # Checks

    def _check_fitted(self) -> None:
        if not hasattr(self, "_post"):
            raise ValueError("This model has not been fitted yet.")

    def _check_range(self, values: IntArray, n: int, name: str) -> None:
        if len(values) and values.max() >= n:
            raise ValueError(f"There is no {name} with index {values.max()}: the model knows {n}.")

    def _with_new_items(self, items: npt.ArrayLike | None, X_items: npt.ArrayLike | None) -> tuple[Posterior, IntArray]:
        """Return the posterior with new items appended, and the requested rows."""
        self._check_fitted()
        X, post = optional(X_items, "X_items"), self._post
        n_known = post.n_items
        if X is not None and len(X):
            post = post.with_items(X, len(X))
        if items is None:
            first = n_known if post.n_items > n_known else 0
            return post, np.arange(first, post.n_items)
        rows = indices(items, "items")
        self._check_range(rows, post.n_items, "item")
        return post, rows

    def _users(self, users: npt.ArrayLike | None, new_traits: FloatArray | None) -> IntArray:
        n_known, n_new = self._post.n_users, 0 if new_traits is None else len(new_traits)
        if users is None:
            return np.arange(n_known, n_known + n_new) if n_new else np.arange(n_known)
        chosen = indices(users, "users")
        self._check_range(chosen, n_known + n_new, "user")
        return chosen

    def _new_weights(self, new_traits: FloatArray | None) -> FloatArray | None:
        if new_traits is None or self._traits is None:
            return None
        return self._traits.predict(new_traits)


def optional(X: npt.ArrayLike | None, name: str) -> FloatArray | None:
    """Features as a matrix, or None."""
    return None if X is None else matrix(X, name)


def count(name: str, seen: int, stated: int | None, X: FloatArray | None) -> int:
    """Infer the number of items or users from the labels, the caller and the features."""
    if stated is not None and stated < seen:
        raise ValueError(f"The labels name {seen} {name}, but n_{name} is {stated}.")
    if X is None:
        return seen if stated is None else stated
    if len(X) < seen:
        raise ValueError(f"The labels name {seen} {name}, but X_{name} has {len(X)} rows.")
    if stated is not None and stated != len(X):
        raise ValueError(f"X_{name} has {len(X)} rows, but n_{name} is {stated}.")
    return len(X)
