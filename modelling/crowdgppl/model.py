"""CrowdGPPL: the estimator. It checks what comes in and hands the work to the modules beside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from .arrays import FloatArray, IntArray, State, matrix
from .inducing import item_space
from .inference import Rules, run
from .kernels import Kernel, Matern32, kernel_from_state
from .labels import PairwiseLabels, indices
from .ledger import Ledger
from .posterior import Posterior, blank_posterior, prior_scales
from .predict import Predictor
from .start import begin
from .state import posterior_from_state, posterior_to_state, unwords, words
from .streaming import find_rows, grow_items, grow_users, update, with_labels, without_labels

Progress = Callable[[str, int, int, float], None]  # stage, iteration, most iterations, change of z

TYPICAL_VARIANCE = 20.0  # total prior variance of the personal part where it is neither given nor chosen


class CrowdGPPL:
    """Preferences of a crowd from pairwise labels: a consensus t and personal tastes V^T W."""

    def __init__(
        self,
        n_components: int = 20,
        n_inducing_items: int | None = 200,
        n_inducing_users: int | None = None,
        consensus: bool = True,
        batch_size: int | None = None,
        forgetting_rate: float = 0.5,
        delay: float = 1.0,
        item_kernel: Kernel | None = None,
        user_kernel: Kernel | None = None,
        t_prior: tuple[float, float] = (1.0, 1.0),
        v_prior: tuple[float, float] = (1.0, 10.0),
        w_prior: tuple[float, float] = (1.0, 10.0),
        personal_variance: float | str = "auto",
        scales: str = "shared",
        likelihood: str = "ep",
        random_state: int = 0,
        inducing: str = "auto",
        max_iterations: int = 25,
        tolerance: float = 2e-3,
        progress: Progress | None = None,
    ) -> None:
        self.n_components = n_components
        self.n_inducing_items = n_inducing_items
        self.n_inducing_users = n_inducing_users
        self.consensus = consensus
        self.batch_size = batch_size
        self.forgetting_rate = forgetting_rate
        self.delay = delay
        self.item_kernel = Matern32() if item_kernel is None else item_kernel
        self.user_kernel = Matern32() if user_kernel is None else user_kernel
        self.t_prior, self.v_prior, self.w_prior = t_prior, v_prior, w_prior
        self.personal_variance = personal_variance
        self.scales = scales
        self.likelihood = likelihood
        self.random_state = random_state
        self.inducing = inducing
        self.max_iterations = max_iterations
        self.tolerance = tolerance
        self.progress = progress
        self._check_settings()

    def _check_settings(self) -> None:
        if self.n_components < 0:
            raise ValueError("n_components must be 0 (no personal part) or more.")
        if self.likelihood not in ("ep", "vb", "linear"):
            raise ValueError(f"likelihood must be 'ep', 'vb' or 'linear', not {self.likelihood!r}.")
        if self.scales not in ("shared", "ard"):
            raise ValueError(f"scales must be 'shared' or 'ard', not {self.scales!r}.")
        if self.inducing not in ("auto", "spectral", "kmeans"):
            raise ValueError(f"inducing must be 'auto', 'spectral' or 'kmeans', not {self.inducing!r}.")
        if isinstance(self.personal_variance, str):
            if self.personal_variance != "auto":
                raise ValueError("personal_variance must be a positive number or 'auto'.")
        elif not self.personal_variance > 0:
            raise ValueError("personal_variance must be a positive number or 'auto'.")

    # Learning

    def fit(
        self,
        labels: PairwiseLabels,
        X_items: npt.ArrayLike | None = None,
        X_users: npt.ArrayLike | None = None,
        n_items: int | None = None,
        n_users: int | None = None,
    ) -> CrowdGPPL:
        """The posterior given these labels alone; whatever was learned before is gone."""
        X, Z = optional_matrix(X_items, "X_items"), optional_matrix(X_users, "X_users")
        N = count_rows(labels.n_items, n_items, X, "items")
        U = count_rows(labels.n_users, n_users, Z, "users")
        if len(labels) == 0:
            raise ValueError("There are no labels to learn from.")
        self._rng = np.random.default_rng(self.random_state)
        self._cursor = 0
        space = item_space(X, N, self.item_kernel, self.n_inducing_items, self.inducing, self.random_state)
        post = self._blank(space, Ledger.of(labels, N, U))
        begin(post, self._rules, self._rng)
        self.n_iter_, self.converged_ = run(post, self._rules, self._report("fit"))
        self._keep(post)
        return self

    def _blank(self, space: Any, ledger: Ledger) -> Posterior:
        present = int((ledger.counts > 0).sum())
        C = 0 if present < 2 else min(self.n_components, present)
        ard = self.scales == "ard"
        scale_items, scale_users = prior_scales(C, self.t_prior, self.v_prior, self.w_prior, ard)
        if not ard:
            omega2 = TYPICAL_VARIANCE if isinstance(self.personal_variance, str) else self.personal_variance
            scale_items.fix(slice(1, None), C / omega2)
            scale_users.fix(slice(None), 1.0)
        return blank_posterior(space, ledger, scale_items, scale_users, self.consensus)

    @property
    def _rules(self) -> Rules:
        return Rules(self.likelihood, self.tolerance, self.max_iterations)

    def _report(self, stage: str) -> Callable[[int, float], None] | None:
        if self.progress is None:
            return None
        told = self.progress
        return lambda iteration, change: told(stage, iteration, self.max_iterations, change)

    def _keep(self, post: Posterior) -> None:
        self._post = post
        self.n_items_, self.n_users_, self.n_components_ = post.space.n_items, len(post.users.W), post.n_components
        self.lower_bounds_: list[float] = []
        self.warnings_: list[str] = []
        if post.improper > 0.05:
            self.warnings_.append(f"{post.improper:.0%} of the labels kept an older site (improper cavity).")
        if not self.converged_:
            self.warnings_.append(f"The fit stopped after {self.n_iter_} iterations before it came to rest.")

    def partial_fit(
        self,
        labels: PairwiseLabels,
        X_items: npt.ArrayLike | None = None,
        X_users: npt.ArrayLike | None = None,
        n_items: int | None = None,
        n_users: int | None = None,
    ) -> CrowdGPPL:
        """The posterior with these new labels too: t, the v_c and the users move. X_* hold all rows, old and new."""
        if not hasattr(self, "_post"):
            return self.fit(labels, X_items, X_users, n_items, n_users)
        post = self._post
        X = optional_matrix(X_items, "X_items")
        N = max(self.n_items_, count_rows(labels.n_items, n_items, X, "items"))
        U = max(self.n_users_, count_rows(labels.n_users, n_users, optional_matrix(X_users, "X_users"), "users"))
        if self.n_items_ < N:
            new = None if X is None else X[self.n_items_ :]
            grow_items(post, new, N - self.n_items_, self._room())
        if self.n_users_ < U:
            grow_users(post, U)
        with_labels(post, labels)
        self._cursor = update(post, np.unique(labels.u), len(labels), self._cursor, self._rules)
        self._keep(post)
        return self

    def _room(self) -> int:
        return 10**9 if self.n_inducing_items is None else max(0, self.n_inducing_items - self._post.space.M)

    def forget(self, labels: PairwiseLabels) -> CrowdGPPL:
        """The posterior without these labels: their sites are exactly gone, and what they moved moves back."""
        post = self._fitted()
        without_labels(post, find_rows(post.ledger, labels))
        self._cursor = update(post, np.unique(labels.u), len(labels), self._cursor, self._rules)
        self._keep(post)
        return self

    # Predicting

    def _fitted(self) -> Posterior:
        if not hasattr(self, "_post"):
            raise ValueError("The model has not been fitted yet.")
        return self._post

    def _predictor(self, X_items: npt.ArrayLike | None, X_users: npt.ArrayLike | None) -> Predictor:
        post = self._fitted()
        X, Z = optional_matrix(X_items, "X_items"), optional_matrix(X_users, "X_users")
        users = post.users if Z is None else post.users.grown(self.n_users_ + len(Z), post.s_w)
        view = post.space.view(X, 0 if X is None else len(X))
        s = post.scale_items.mean
        return Predictor(view, post.items, s, users.W, users.Omega, post.s_w, post.items.cov[0])

    def _chosen(self, wanted: npt.ArrayLike | None, known: int, X: npt.ArrayLike | None, name: str) -> IntArray:
        new = 0 if X is None else len(np.asarray(X))
        if wanted is None:
            return np.arange(known, known + new) if new else np.arange(known)
        chosen = indices(wanted, name)
        if len(chosen) and chosen.max() >= known + new:
            raise ValueError(f"{name} holds the index {chosen.max()}, but there are {known + new}.")
        return chosen

    def predict_consensus(
        self,
        items: npt.ArrayLike | None = None,
        X_items: npt.ArrayLike | None = None,
        return_std: bool = False,
        return_cov: bool = False,
    ) -> Any:
        """t at these items; with return_std also its standard deviations, with return_cov its covariance."""
        predictor = self._predictor(X_items, None)
        chosen = self._chosen(items, self.n_items_, X_items, "items")
        mean = predictor.consensus_mean(chosen)
        if return_cov:
            return mean, predictor.consensus_covariance(chosen)
        if return_std:
            return mean, np.sqrt(np.maximum(predictor.consensus_covariance(chosen).diagonal(), 0.0))
        return mean

    def predict_utilities(
        self,
        users: npt.ArrayLike | None = None,
        items: npt.ArrayLike | None = None,
        X_items: npt.ArrayLike | None = None,
        X_users: npt.ArrayLike | None = None,
        return_std: bool = False,
    ) -> Any:
        """E[F], (items, users); with return_std also its standard deviations."""
        predictor = self._predictor(X_items, X_users)
        i = self._chosen(items, self.n_items_, X_items, "items")
        u = self._chosen(users, self.n_users_, X_users, "users")
        mean = predictor.utilities(u, i)
        return (mean, predictor.utility_sd(u, i)) if return_std else mean

    def predict_proba(
        self,
        u: npt.ArrayLike,
        a: npt.ArrayLike,
        b: npt.ArrayLike,
        X_items: npt.ArrayLike | None = None,
        X_users: npt.ArrayLike | None = None,
    ) -> FloatArray:
        """P(user u prefers a to b), for each triple."""
        users = self._chosen(u, self.n_users_, X_users, "u")
        i, j = (self._chosen(each, self.n_items_, X_items, name) for each, name in ((a, "a"), (b, "b")))
        check_lengths(users, i, j)
        return self._predictor(X_items, X_users).proba(users, i, j)

    def predict_consensus_proba(
        self,
        a: npt.ArrayLike,
        b: npt.ArrayLike,
        kind: str = "typical",
        n_workers: int | None = None,
        X_items: npt.ArrayLike | None = None,
    ) -> FloatArray:
        """P(a preferred to b) by a typical worker (w = 0), or by the mean or majority of n new ones."""
        i, j = (self._chosen(each, self.n_items_, X_items, name) for each, name in ((a, "a"), (b, "b")))
        check_lengths(i, j)
        predictor = self._predictor(X_items, None)
        if kind == "typical":
            return predictor.typical_proba(i, j)
        if kind not in ("mean", "majority"):
            raise ValueError(f"kind must be 'typical', 'mean' or 'majority', not {kind!r}.")
        if n_workers is None or n_workers < 1:
            raise ValueError(f"The {kind} of new workers needs n_workers, at least 1.")
        if kind == "mean":
            return predictor.mean_proba(i, j, n_workers)
        return predictor.majority_proba(i, j, n_workers, np.random.default_rng(self.random_state))

    # Looking

    @property
    def item_components_(self) -> FloatArray:
        """(C, N): v_c at the items."""
        post = self._fitted()
        return post.space.times(post.items.mean[:, 1:]).T

    @property
    def user_components_(self) -> FloatArray:
        """(C, U): w_c of the users."""
        return self._fitted().users.W.T

    @property
    def component_variances_(self) -> FloatArray:
        """(C,) 1 / (E[s_v] E[s_w])."""
        post = self._fitted()
        return np.asarray(1.0 / (post.scale_items.mean[1:] * post.s_w))

    @property
    def component_energy_(self) -> FloatArray:
        """(C,) mean over users and items of (E[v_ci] E[w_uc])^2, v centred over items."""
        V, W = self.item_components_, self.user_components_
        V = V - V.mean(axis=1, keepdims=True)
        return np.asarray((V**2).mean(axis=1) * (W**2).mean(axis=1))

    # Keeping

    def _settings(self) -> dict[str, Any]:
        names = [
            "n_components", "n_inducing_items", "n_inducing_users", "consensus", "batch_size", "forgetting_rate",
            "delay", "t_prior", "v_prior", "w_prior", "personal_variance", "scales", "likelihood", "random_state",
            "inducing", "max_iterations", "tolerance",
        ]  # fmt: skip
        settings = {name: getattr(self, name) for name in names}
        for name in ("item_kernel", "user_kernel"):
            settings[name] = getattr(self, name).to_state()
        return settings

    def to_state(self) -> State:
        """A flat dict of arrays from which `from_state` continues as if nothing had happened."""
        state = posterior_to_state(self._fitted())
        state["settings"] = words(self._settings())
        state["course"] = words(
            {
                "n_iter": self.n_iter_, "converged": self.converged_, "warnings": self.warnings_,
                "lower_bounds": self.lower_bounds_, "cursor": self._cursor, "rng": self._rng.bit_generator.state,
            }
        )  # fmt: skip
        return state

    @classmethod
    def from_state(cls, state: State, progress: Progress | None = None) -> CrowdGPPL:
        """The model that `to_state` wrote."""
        settings = unwords(state["settings"])
        for name in ("item_kernel", "user_kernel"):
            settings[name] = kernel_from_state(settings[name])
        for name in ("t_prior", "v_prior", "w_prior"):
            settings[name] = tuple(settings[name])
        model = cls(**settings, progress=progress)
        course = unwords(state["course"])
        model._rng = np.random.default_rng()
        model._rng.bit_generator.state = course["rng"]
        model._cursor = course["cursor"]
        model.n_iter_, model.converged_ = course["n_iter"], course["converged"]
        model._keep(posterior_from_state(state))
        model.warnings_, model.lower_bounds_ = course["warnings"], course["lower_bounds"]
        return model


def optional_matrix(X: npt.ArrayLike | None, name: str) -> FloatArray | None:
    """Features as a matrix, or None."""
    return None if X is None else matrix(X, name)


def count_rows(seen: int, stated: int | None, X: FloatArray | None, name: str) -> int:
    """How many items (or users) there are: as stated, as rows of X, or as the labels need."""
    count = seen if stated is None else stated
    if X is not None:
        if stated is not None and stated != len(X):
            raise ValueError(f"n_{name} is {stated} but X_{name} has {len(X)} rows.")
        count = len(X)
    if count < seen:
        raise ValueError(f"The labels speak of {seen} {name}, but there are only {count}.")
    return count


def check_lengths(*arrays: IntArray) -> None:
    """All of one length."""
    if len({len(each) for each in arrays}) > 1:
        raise ValueError("The arrays of a prediction must have the same length.")
