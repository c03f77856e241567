"""Fit crowdGPPL and its rivals to one study with their CPU times, and predict for judges and for a random new judge."""

from __future__ import annotations

import signal
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from benchmarks.harness import timed
from benchmarks.studies.rivals import BradleyTerry, Floats, HierarchicalBradleyTerry, Ints, PairLabels
from modelling.crowdgppl import CrowdGPPL, PairwiseLabels

CROWD = "crowdgppl"
RIVALS = ("bradley_terry", "hierarchical", "constant")  # do not depend on crowdGPPL
GPPL = ("gppl", "gppl_features")


class Predictor(Protocol):
    """Probabilities that a is preferred to b."""

    def personal(self, u: Ints, a: Ints, b: Ints) -> Floats: ...

    def random_member(self, a: Ints, b: Ints) -> Floats: ...


class Constant:
    """Always predicts one half."""

    def personal(self, u: Ints, a: Ints, b: Ints) -> Floats:
        return np.full(len(a), 0.5)

    def random_member(self, a: Ints, b: Ints) -> Floats:
        return np.full(len(a), 0.5)


@dataclass(frozen=True)
class Engine:
    """A fitted CrowdGPPL; with `consensus_only` it has no personal part to integrate out."""

    model: Any
    consensus_only: bool = False

    def personal(self, u: Ints, a: Ints, b: Ints) -> Floats:
        """P(judge u prefers a to b)."""
        return np.asarray(self.model.predict_proba(u, a, b))

    def random_member(self, a: Ints, b: Ints) -> Floats:
        """P(a preferred to b) by a judge who is not part of the study."""
        if self.consensus_only:
            return np.asarray(self.model.predict_proba(np.zeros(len(a), dtype=np.int64), a, b))
        return np.asarray(self.model.predict_consensus_proba(a, b, kind="mean", n_workers=1))

    def facts(self) -> dict[str, Any]:
        """Diagnostics of the fit."""
        found = {name.rstrip("_"): getattr(self.model, name) for name in ("n_iter_", "converged_", "warnings_")}
        return {**found, "n_components": len(self.model.component_variances_), **self.model.hyperparameters_}


@dataclass(frozen=True)
class Data:
    """The training data of a model."""

    labels: PairLabels
    n_items: int
    n_users: int
    X_items: Floats | None = None
    settings: dict[str, Any] | None = None  # arguments of CrowdGPPL, for example a kernel


def fit_engine(data: Data, features: bool = True, **settings: Any) -> Engine:
    """Fit CrowdGPPL with its defaults, except for `settings`."""
    labels = PairwiseLabels(u=data.labels.u, a=data.labels.a, b=data.labels.b, y=data.labels.y)
    X = data.X_items if features else None
    given = (data.settings or {}) if X is not None else {}
    model = CrowdGPPL(**{**given, **settings})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(labels, X_items=X, n_items=data.n_items, n_users=data.n_users)
    return Engine(model, settings.get("n_components") == 0)


def fitters(data: Data) -> dict[str, Callable[[], Predictor]]:
    """Return a function for each model that fits it to these data."""
    made: dict[str, Callable[[], Predictor]] = {
        CROWD: lambda: fit_engine(data),
        "gppl": lambda: fit_engine(data, features=False, n_components=0),
        "bradley_terry": lambda: BradleyTerry.cross_validated(data.labels, data.n_items),
        "hierarchical": lambda: HierarchicalBradleyTerry.cross_validated(data.labels, data.n_items),
        "constant": Constant,
    }
    if data.X_items is not None:
        made["gppl_features"] = lambda: fit_engine(data, n_components=0)
    return made


def fit_timed(fit: Callable[[], Predictor], seconds: float) -> tuple[Predictor | None, float, str]:
    """The model, its CPU seconds, and the error if it failed or took more than `seconds` of CPU time."""
    try:
        with cpu_limit(seconds):
            model, taken = timed(fit)
    except Exception as error:  # one failed fit must not end a run of hundreds
        return None, float("nan"), f"{type(error).__name__}: {error}"
    return model, taken, ""


@contextmanager
def cpu_limit(seconds: float) -> Iterator[None]:
    """Raise TimeoutError once this process has used this much CPU time."""

    def stop(*_: Any) -> None:
        raise TimeoutError(f"more than {seconds:.0f} CPU seconds")

    previous = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, previous)
