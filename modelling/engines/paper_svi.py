"""The paper's Algorithm 2 as a study's engine: labels in a store, updates, and the quantities that pages show."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from modelling.baselines import PaperSVI
from modelling.baselines.base import NewRows
from modelling.baselines.factor_model import Moments
from modelling.baselines.sparse_gp import JITTER, USER_JITTER, GammaScale, IndependentGP, InducedGP, InducingPoints
from modelling.crowdgppl import ArrayStore, Executor, LabelStore, LocalExecutor, PairwiseLabels
from modelling.crowdgppl.arrays import FloatArray, IntArray, State
from modelling.crowdgppl.kernels import correlations
from modelling.crowdgppl.labels import indices
from modelling.crowdgppl.likelihood import PROBIT, Response
from modelling.crowdgppl.model import optional
from modelling.crowdgppl.predictions import centred_variances, contrast_variance, crowd_probability
from modelling.crowdgppl.state import from_text, kernel_from_text, kernel_to_text, to_text

NAME, VERSION = "paper_svi", 1
INDUCING = 200
ITERATIONS, PASSES = 200, 3  # of a fit: at least so many iterations, and so often over all labels
UPDATE_ITERATIONS, UPDATE_DELAY = 60, 20.0  # of an update, which keeps an eighth of the factors that it starts from
USERS_PER_READ = 10_000
SETTLED = 0.05  # largest change of the consensus over the last quarter of a fit, relative to its spread


@dataclass(frozen=True)
class PlainScale:
    """Answers without a margin for ties and with a known scale."""

    response: Response = PROBIT
    scale_sd: float = 0.0


@dataclass(frozen=True)
class Relative:
    """Moments of t and each v_c at some items, relative to their mean over a set of items."""

    t: FloatArray  # (n,)
    t_variance: FloatArray  # (n,)
    v: FloatArray  # (C, n)
    v_variance: FloatArray  # (C, n)


class PaperSVIEngine(PaperSVI):
    """PaperSVI with labels in a store; an update continues Algorithm 2 from the factors of the version before.

    It computes no lower bound, has no margin for ties and does not weight workers; all components are in use.
    """

    def __init__(
        self, *, n_inducing_items: int | None = INDUCING, n_inducing_users: int | None = INDUCING,
        n_iterations: int = ITERATIONS, progress: Callable[[dict[str, float]], None] | None = None, **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(
            n_inducing_items=n_inducing_items, n_inducing_users=n_inducing_users, n_iterations=n_iterations, **settings
        )
        self.progress = progress
        self.executor: Executor = LocalExecutor()
        self.lower_bounds_: list[float] = []
        self._residual: FloatArray | None = None  # of all known items, computed when it is first needed

    # Fitting

    def fit(
        self, labels: PairwiseLabels | LabelStore, X_items: npt.ArrayLike | None = None,
        X_users: npt.ArrayLike | None = None, n_items: int | None = None, n_users: int | None = None,
    ) -> Self:  # fmt: skip
        """Fit from scratch, to labels in memory or in a store."""
        if isinstance(labels, PairwiseLabels):
            known = n_users if n_users is not None else labels.n_users if X_users is None else len(np.asarray(X_users))
            self._store: LabelStore = ArrayStore(labels, max(known, labels.n_users))
        else:
            self._store = labels
        return super().fit(read_labels(self._store), X_items, X_users, n_items, n_users)

    def _fit(self, labels: PairwiseLabels, X_items: FloatArray | None, X_users: FloatArray | None) -> None:
        self.n_updates = 0
        rng = self._rng()
        self._set_up(rng, labels, X_items, X_users)
        passes = PASSES * -(-len(labels) // self.batch_size)
        self._iterate_many(rng, labels, max(self.n_iterations, passes), self.delay)

    def grow(self, *, X_users: npt.ArrayLike | None = None, n_users: int | None = None) -> Self:
        """Make room for new users, whose weights have their prior; X_users holds the rows of all."""
        Z = optional(X_users, "X_users")
        n_new = max(n_users or 0, 0 if Z is None else len(Z)) - self.n_users_
        if n_new <= 0:
            return self
        self.n_users_ += n_new
        if not self.Z.shape[1]:
            self.Z = np.zeros((self.n_users_, 0))
        elif Z is None or len(Z) < self.n_users_:
            raise ValueError(f"There are {n_new} new users, but X_users does not have their rows.")
        else:
            self.Z = Z
        for w_c in self._w:
            if isinstance(w_c, IndependentGP):
                w_c.n_points = self.n_users_
                w_c.precision = np.append(w_c.precision, np.full(n_new, w_c.scale.mean))
                w_c.shift = np.append(w_c.shift, np.zeros(n_new))
        self._restore(self.to_state())
        return self

    def update_users(
        self, users: npt.ArrayLike, change: Callable[[], None], n_added: int = 0, n_removed: int = 0
    ) -> Self:
        """Learn from labels that `change` adds to, and removes from, the store: one more pass over all labels.

        Algorithm 2 gives users outside a batch the same weight as those inside, so all users are visited.
        """
        change()
        self.n_updates += 1
        labels = read_labels(self._store)
        self.labelled_users = np.unique(labels.u)
        n_iterations = max(UPDATE_ITERATIONS, -(-len(labels) // self.batch_size))
        if len(labels):
            self._iterate_many(self._rng(), labels, n_iterations, UPDATE_DELAY)
        return self

    def _rng(self) -> np.random.Generator:
        """A separate generator for the fit and for each update, so that a restored model gives the same results."""
        return np.random.default_rng([self.random_state, self.n_updates])

    def _iterate_many(self, rng: np.random.Generator, labels: PairwiseLabels, n_iterations: int, delay: float) -> None:
        """Iterate, report progress, and compare the consensus with that after three quarters of the iterations."""
        last = earlier = self.A @ self._t.mean

        def after(i: int) -> None:
            nonlocal last, earlier
            t = self.A @ self._t.mean
            if self.progress is not None:
                self.progress({"iteration": i + 1, "most": n_iterations, "change": relative_change(t, last)})
            last = t
            if i + 1 == max(1, 3 * n_iterations // 4):
                earlier = t

        self._learn(rng, labels, n_iterations, delay, after)
        self.n_iter_ = n_iterations
        self.converged_ = relative_change(last, earlier) < SETTLED
        self.warnings_: list[str] = []
        if not self.converged_:
            self.warnings_.append(f"The fit stopped after {n_iterations} iterations before its results settled.")
        self._restore(self.to_state())

    @property
    def store(self) -> LabelStore:
        """The store of labels."""
        return self._store

    def use_store(self, store: LabelStore) -> Self:
        """Read the same labels from another store from now on."""
        self._store = store
        return self

    # What the model knows

    @property
    def X_items_(self) -> FloatArray | None:
        """Features (N, D) of the items; None without features."""
        return self.X if self.X.shape[1] else None

    @property
    def X_users_(self) -> FloatArray | None:
        """Traits (U, E) of the users; None without traits."""
        return self.Z if self.Z.shape[1] else None

    @property
    def hyperparameters_(self) -> dict[str, float]:
        """1 / E[s] of the consensus, and the mean variance of tastes per item."""
        A, residual = self._projection(np.arange(self.n_items_), NewRows())
        v_squared = (self.V @ A.T) ** 2 + self._factor_variances(A, np.diagonal(residual))[1:]
        tastes = float(np.mean((v_squared / self.s_w[:, None]).sum(axis=0))) if self.n_components else 0.0
        return {"consensus_variance": float(1.0 / self.s[0]), "taste_variance": tastes}

    # Predictions

    def predict_utilities(
        self, users: npt.ArrayLike | None = None, items: npt.ArrayLike | None = None,
        X_items: npt.ArrayLike | None = None, X_users: npt.ArrayLike | None = None, return_std: bool = False,
        among: npt.ArrayLike | None = None,
    ) -> Any:  # fmt: skip
        """Utilities (items, users) relative to each user's mean over the known items, or over `among`."""
        new = NewRows.of(X_items, X_users)
        at, (w, w_variance) = self._relative(items, new, among), self._weights(self._users(users, new), new)
        mean = at.t[:, None] + at.v.T @ w
        return (mean, np.sqrt(at.t_variance[:, None] + _taste_variances(at, w, w_variance))) if return_std else mean

    def predict_tastes(
        self, users: npt.ArrayLike | None = None, items: npt.ArrayLike | None = None,
        X_items: npt.ArrayLike | None = None, among: npt.ArrayLike | None = None,
    ) -> tuple[FloatArray, FloatArray]:  # fmt: skip
        """Means and standard deviations (items, users) of sum_c v_c w_c, relative to its mean over the items."""
        new = NewRows.of(X_items)
        at, (w, w_variance) = self._relative(items, new, among), self._weights(self._users(users, new), new)
        return at.v.T @ w, np.sqrt(_taste_variances(at, w, w_variance))

    def taste_sds(self, items: npt.ArrayLike, among: npt.ArrayLike | None = None) -> FloatArray:
        """Standard deviation over the crowd, w_c ~ N(0, 1 / E[s_w]), of sum_c v_c w_c relative to its mean."""
        at = self._relative(items, NewRows(), among)
        crowd = np.zeros((self.n_components, 1)), (1.0 / self.s_w)[:, None]
        return np.asarray(np.sqrt(_taste_variances(at, *crowd)[:, 0]))

    def predict_proba(
        self, u: npt.ArrayLike, a: npt.ArrayLike, b: npt.ArrayLike, X_items: npt.ArrayLike | None = None,
        X_users: npt.ArrayLike | None = None, most: int | None = None,
    ) -> FloatArray:  # fmt: skip
        """P(user u prefers a to b); users are known by their weights, so `most` has no effect."""
        return super().predict_proba(u, a, b, X_items, X_users)

    def predict_differences(
        self, u: npt.ArrayLike, a: npt.ArrayLike, b: npt.ArrayLike, X_items: npt.ArrayLike | None = None,
        X_users: npt.ArrayLike | None = None, most: int | None = None,
    ) -> tuple[FloatArray, FloatArray]:  # fmt: skip
        """Posterior mean and variance of the difference of utilities of a and b for user u."""
        new = NewRows.of(X_items, X_users)
        return self._differences(indices(u, "u"), self._items(a, new), self._items(b, new), new)

    def predict_consensus_proba(
        self, a: npt.ArrayLike, b: npt.ArrayLike, kind: str = "mean", n_workers: int = 1,
        X_items: npt.ArrayLike | None = None,
    ) -> FloatArray:  # fmt: skip
        """P(a preferred to b): by n new workers (their mean utility or majority), or by a typical one."""
        if n_workers < 1:
            raise ValueError("n_workers must be at least 1.")
        new = NewRows.of(X_items)
        first, second = self._items(a, new), self._items(b, new)
        used, positions = np.unique(np.concatenate([first, second]), return_inverse=True)
        i, j = positions[: len(first)], positions[len(first) :]
        A, residual = self._projection(used, new)
        rows = A[i] - A[j]
        variances = self._factor_variances(rows, contrast_variance(residual, i, j))
        taste = (((rows @ self.V.T).T ** 2 + variances[1:]) / self.s_w[:, None]).sum(axis=0)
        return crowd_probability(PlainScale(), rows @ self.t, variances[0], taste, kind, n_workers)

    def similarity(self, items: npt.ArrayLike, X_items: npt.ArrayLike | None = None) -> FloatArray:
        """Prior correlation (items, N) of these items with every known one by their features."""
        new, points = NewRows.of(X_items), self._item_points()
        rows = self._items(items, new)
        if points is None:
            return np.asarray((rows[:, None] == np.arange(self.n_items_)).astype(np.float64))
        every = self.X if new.items is None else np.vstack((self.X, new.items))
        return correlations(points.kernel, every[rows], self.X)

    def predict_weights(self, users: npt.ArrayLike | None = None) -> tuple[FloatArray, FloatArray]:
        """Means (C, users) and covariances (users, C, C) of the weights of known users, of prior variance 1.

        q(w) has a factor for each component, so that the covariances are diagonal.
        """
        w, variance = self._weights(self._users(users, NewRows()), NewRows())
        order, scale = self._by_variance, self.s_w[:, None]
        mean, variance = (np.sqrt(scale) * w)[order], (scale * variance)[order]
        return mean, np.asarray(variance.T[:, :, None] * np.eye(len(order)))

    def _relative(self, items: npt.ArrayLike | None, new: NewRows, among: npt.ArrayLike | None) -> Relative:
        """Moments at these items relative to the mean over the known items, or over `among`."""
        n_new = 0 if new.items is None else len(new.items)
        A, residual = self._projection(np.arange(self.n_items_ + n_new), new)
        c = np.zeros(len(A))
        c[np.arange(self.n_items_) if among is None else indices(among, "among")] = 1.0
        c /= c.sum()
        rows = self._items(items, new)
        relative = A[rows] - c @ A
        variances = self._factor_variances(relative, centred_variances(residual, c)[rows])
        return Relative(relative @ self.t, variances[0], self.V @ relative.T, variances[1:])

    def _factor_variances(self, rows: FloatArray, residual: FloatArray) -> FloatArray:
        """(C + 1, n) variances of t and each v_c along rows (n, M); `residual` (n,) is the prior's, for s = 1."""
        explained = [((rows @ cov) * rows).sum(axis=1) for cov in self.cov]
        return np.maximum(np.array(explained) + residual / self.s[:, None], 0.0)

    def _weights(self, users: IntArray, new: NewRows) -> Moments:
        """Means and variances (C, users) of the users' weights."""
        if not len(users) or users.max() < self.n_users_:
            return self.W[:, users], self.W_var[:, users]
        each = [self._user_weights(int(user), new) for user in users]
        return np.array([mean for mean, _ in each]).T, np.array([variance for _, variance in each]).T

    def _projection(self, items: IntArray, new: NewRows) -> Moments:
        """The projection to these items and the prior variance it leaves; both are cached for all known items."""
        if new.items is not None:
            return super()._projection(items, new)
        if self._residual is None:
            self._residual = super()._projection(np.arange(self.n_items_), new)[1]
        return self.A[items], self._residual[np.ix_(items, items)]

    # State

    def to_state(self) -> State:
        """The settings and natural parameters; the labels are in the store."""
        settings = {name: getattr(self, name) for name in self.SETTINGS if not name.endswith("_kernel")}
        fitted = {
            "version": VERSION, "sizes": [self.n_items_, self.n_users_], "n_updates": self.n_updates,
            "n_iter": self.n_iter_, "converged": self.converged_, "warnings": self.warnings_,
        }  # fmt: skip
        state: State = {"engine": to_text(NAME), "settings": to_text(settings), "fitted": to_text(fitted)}
        induced = [w_c for w_c in self._w if isinstance(w_c, InducedGP)]
        alone = [w_c for w_c in self._w if isinstance(w_c, IndependentGP)]
        for name, factors in (("items", [self._t, *self._v]), ("induced", induced)):
            lower = np.tril_indices(len(factors[0].shift) if factors else 0)
            state[f"{name}_precision"] = _stack([factor.precision[lower] for factor in factors])
            state[f"{name}_shift"] = _stack([factor.shift for factor in factors])
        state["users_precision"] = _stack([factor.precision for factor in alone])
        state["users_shift"] = _stack([factor.shift for factor in alone])
        scales = [factor.scale for factor in (self._t, *self._v, *self._w)]
        state["scales"] = np.array([(scale.shape, scale.rate) for scale in scales])
        state["labelled_users"] = self.labelled_users
        state |= {name: X for name, X in (("X_items", self.X_items_), ("traits_X", self.X_users_)) if X is not None}
        for name, kernel, points in (
            ("item", self.item_kernel, self._item_points()), ("user", self.user_kernel, self._inducing_users())
        ):  # fmt: skip
            state[f"given_{name}_kernel"] = kernel_to_text(kernel)
            if points is not None:
                state[f"{name}_kernel"], state[f"{name}_points"] = kernel_to_text(points.kernel), points.locations
        return state

    @classmethod
    def from_state(cls, state: State, store: LabelStore | None = None) -> Self:
        """Restore from `to_state`; `store` holds the labels, which only updates need."""
        fitted = from_text(state["fitted"])
        if fitted["version"] != VERSION:
            raise ValueError(f"This state has version {fitted['version']}; this release reads version {VERSION}.")
        settings: dict[str, Any] = from_text(state["settings"])
        for name, value in settings.items():
            settings[name] = tuple(value) if isinstance(value, list) else value
        settings |= {f"{name}_kernel": kernel_from_text(state[f"given_{name}_kernel"]) for name in ("item", "user")}
        model = cls(**settings)
        model.n_updates, model.n_iter_ = fitted["n_updates"], fitted["n_iter"]
        model.converged_, model.warnings_ = fitted["converged"], fitted["warnings"]
        model._restore(state)
        if store is not None:
            model._store = store
        return model

    def _restore(self, state: State) -> None:
        """Set the factors from these arrays, also after a fit: rounding is then the same in a restored model."""
        self.n_items_, self.n_users_ = from_text(state["fitted"])["sizes"]
        self.labelled_users = np.array(state["labelled_users"])
        self.X = np.array(state.get("X_items", np.zeros((self.n_items_, 0))))
        self.Z = np.array(state.get("traits_X", np.zeros((self.n_users_, 0))))
        self._points, self._user_points = _points(state, "item", JITTER), _points(state, "user", USER_JITTER)
        self._project()
        self._residual = None
        C, F = self.n_components, len(state["induced_shift"])
        K_mm_inv = np.eye(self.n_items_) if self._points is None else self._points.K_mm_inv
        priors = [self.t_prior, *[self.v_prior] * C, *[self.w_prior] * C]
        scales = [
            _scale(prior, shape, rate) for prior, (shape, rate) in zip(priors, state["scales"].tolist(), strict=True)
        ]
        self._t, *self._v = (
            _induced(K_mm_inv, scale, *row) for scale, row in zip(scales, _rows(state, "items"), strict=False)
        )
        self._w = [
            _induced(self._user_points.K_mm_inv, scale, *row)
            for scale, row in zip(scales[C + 1 :], _rows(state, "induced"), strict=False)
            if self._user_points is not None
        ]
        for scale, (precision, shift) in zip(scales[C + 1 + F :], _rows(state, "users"), strict=True):
            alone = IndependentGP(self.n_users_, scale)
            alone.precision, alone.shift = precision, shift
            self._w.append(alone)
        self._store_moments()


def read_labels(store: LabelStore) -> PairwiseLabels:
    """All labels of a store, user by user: 40 bytes for each."""
    users = store.active_users()
    parts = [store.load(users[start : start + USERS_PER_READ]) for start in range(0, len(users), USERS_PER_READ)]
    none = np.zeros(0, dtype=np.int64)
    u = np.concatenate([none, *(np.repeat(part.users, part.counts) for part in parts)])
    a, b = (np.concatenate([none, *(getattr(part, name) for part in parts)]) for name in ("a", "b"))
    y, weight = (np.concatenate([np.zeros(0), *(getattr(part, name) for part in parts)]) for name in ("y", "weight"))
    return PairwiseLabels(u, a, b, y, weight)


def relative_change(new: FloatArray, old: FloatArray) -> float:
    """The root mean square of the change of scores, relative to their spread."""
    new, old = new - new.mean(), old - old.mean()
    return float(np.sqrt(np.mean((new - old) ** 2) / max(float(np.mean(new**2)), 1e-300)))


def _taste_variances(at: Relative, w: FloatArray, w_variance: FloatArray) -> FloatArray:
    """(n, users) variances of sum_c v_c w_c: eq:predict_crowd without t."""
    return np.asarray(at.v_variance.T @ (w**2 + w_variance) + (at.v**2).T @ w_variance)


def _stack(rows: list[FloatArray]) -> FloatArray:
    return np.array(rows) if rows else np.zeros((0, 0))


def _rows(state: State, name: str) -> list[tuple[FloatArray, FloatArray]]:
    return list(zip(np.array(state[f"{name}_precision"]), np.array(state[f"{name}_shift"]), strict=True))


def _points(state: State, name: str, jitter: float) -> InducingPoints | None:
    if f"{name}_points" not in state:
        return None
    kernel = kernel_from_text(state[f"{name}_kernel"])
    if kernel is None:
        raise ValueError("The inducing points have no kernel.")
    return InducingPoints.at(np.array(state[f"{name}_points"]), kernel, jitter)


def _scale(prior: tuple[float, float], shape: float, rate: float) -> GammaScale:
    scale = GammaScale(*prior)
    scale.shape, scale.rate = shape, rate
    return scale


def _induced(K_mm_inv: FloatArray, scale: GammaScale, lower: FloatArray, shift: FloatArray) -> InducedGP:
    """A factor with this lower triangle of its precision."""
    precision = np.zeros((len(shift), len(shift)))
    precision[np.tril_indices(len(shift))] = lower
    factor = InducedGP(K_mm_inv, scale)
    factor.precision, factor.shift = precision + np.tril(precision, -1).T, shift
    factor.solve()
    return factor
