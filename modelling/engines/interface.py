"""The interface of an engine, and the engines by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy.typing as npt

from modelling.crowdgppl import CrowdGPPL, Executor, LabelStore, PairwiseLabels
from modelling.crowdgppl.arrays import FloatArray, State
from modelling.crowdgppl.kernels import Kernel
from modelling.crowdgppl.state import from_text
from modelling.engines.paper_svi import NAME, PaperSVIEngine

CROWDGPPL, PAPER_SVI = ENGINES = ("crowdgppl", NAME)


class Engine(Protocol):
    """What a study's model must offer; items and users are positions, and new ones follow the known ones.

    An engine holds its labels in a store, which the product replaces by rows of its database, and changes only in
    `fit`, `grow` and `update_users`. The same labels, settings and seed give the same state to the last bit, also if
    the model was stored and restored in between.
    """

    n_components: int
    progress: Callable[[dict[str, float]], None] | None  # called with "iteration", "most" and "change"
    executor: Executor
    lower_bounds_: list[float]  # after each iteration; empty if the engine does not compute a bound
    n_iter_: int
    converged_: bool
    warnings_: list[str]

    @property
    def item_kernel(self) -> Kernel | None: ...

    @property
    def random_state(self) -> int: ...

    # Fitting and storage

    def fit(
        self, labels: PairwiseLabels | LabelStore, X_items: npt.ArrayLike | None = None,
        X_users: npt.ArrayLike | None = None, n_items: int | None = None, n_users: int | None = None,
    ) -> Engine:  # fmt: skip
        """Fit from scratch, to labels in memory or in a store."""
        ...

    def grow(self, *, X_users: npt.ArrayLike | None = None, n_users: int | None = None) -> Engine:
        """Make room for new users; X_users holds the rows of all."""
        ...

    def update_users(
        self, users: npt.ArrayLike, change: Callable[[], None], n_added: int = 0, n_removed: int = 0
    ) -> Engine:
        """Learn from labels of these users that `change` adds to, and removes from, the store."""
        ...

    @property
    def store(self) -> LabelStore: ...

    def use_store(self, store: LabelStore) -> Engine:
        """Read the same labels from another store from now on."""
        ...

    def to_state(self) -> State:
        """A flat dict of arrays, from which `restore_engine` restores the model."""
        ...

    # What the model knows

    @property
    def n_items_(self) -> int: ...

    @property
    def n_users_(self) -> int: ...

    @property
    def X_items_(self) -> FloatArray | None: ...

    @property
    def X_users_(self) -> FloatArray | None: ...

    @property
    def hyperparameters_(self) -> dict[str, float]: ...

    # Predictions

    def predict_consensus(
        self, items: npt.ArrayLike | None = None, X_items: npt.ArrayLike | None = None, return_std: bool = False,
        return_cov: bool = False,
    ) -> Any:  # fmt: skip
        """Scores that the crowd shares, optionally with standard deviations or the covariance."""
        ...

    def predict_utilities(
        self, users: npt.ArrayLike | None = None, items: npt.ArrayLike | None = None,
        X_items: npt.ArrayLike | None = None, X_users: npt.ArrayLike | None = None, return_std: bool = False,
        among: npt.ArrayLike | None = None,
    ) -> Any:  # fmt: skip
        """Utilities (items, users) relative to each user's mean over the known items, or over `among`."""
        ...

    def predict_tastes(
        self, users: npt.ArrayLike | None = None, items: npt.ArrayLike | None = None,
        X_items: npt.ArrayLike | None = None, among: npt.ArrayLike | None = None,
    ) -> tuple[FloatArray, FloatArray]:  # fmt: skip
        """Means and standard deviations (items, users) of the part of the utilities that the crowd does not share."""
        ...

    def taste_sds(self, items: npt.ArrayLike, among: npt.ArrayLike | None = None) -> FloatArray:
        """Standard deviation of that part over the crowd."""
        ...

    def predict_proba(
        self, u: npt.ArrayLike, a: npt.ArrayLike, b: npt.ArrayLike, X_items: npt.ArrayLike | None = None,
        X_users: npt.ArrayLike | None = None, most: int | None = None,
    ) -> FloatArray:  # fmt: skip
        """P(user u prefers a to b), a tie counted as half; `most` may limit the labels of a user that are used."""
        ...

    def predict_differences(
        self, u: npt.ArrayLike, a: npt.ArrayLike, b: npt.ArrayLike, X_items: npt.ArrayLike | None = None,
        X_users: npt.ArrayLike | None = None, most: int | None = None,
    ) -> tuple[FloatArray, FloatArray]:  # fmt: skip
        """Posterior mean and variance of the difference of utilities of a and b for user u."""
        ...

    def predict_consensus_proba(
        self, a: npt.ArrayLike, b: npt.ArrayLike, kind: str = "mean", n_workers: int = 1,
        X_items: npt.ArrayLike | None = None,
    ) -> FloatArray:  # fmt: skip
        """P(a preferred to b): by n new workers (their mean utility or majority), or by a typical one."""
        ...

    def similarity(self, items: npt.ArrayLike, X_items: npt.ArrayLike | None = None) -> FloatArray:
        """Prior correlation (items, N) of these items with every known one by their features."""
        ...

    # Components

    @property
    def component_variances_(self) -> FloatArray: ...

    @property
    def item_components_(self) -> FloatArray: ...

    def predict_weights(self, users: npt.ArrayLike | None = None) -> tuple[FloatArray, FloatArray]:
        """Posterior means (C, users) and covariances (users, C, C) of the weights of known users."""
        ...


def restore_engine(state: State, store: LabelStore) -> Engine:
    """The engine whose `to_state` gave these arrays; its labels are in the store."""
    if "engine" in state and from_text(state["engine"]) == PAPER_SVI:
        return PaperSVIEngine.from_state(state, store)
    return CrowdGPPL.from_state(state, store)
