"""Share fits among the tests of a process: most page tests fit the same small study, which takes most of their time.

A fit is deterministic, and so is what an update computes from it, so a copy of an earlier result with equal settings
and inputs is as good. Not for tests of fitting.
"""

import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from modelling.crowdgppl import CrowdGPPL, LabelStore, PairwiseLabels
from modelling.engines import PaperSVIEngine
from modelling.findings.workers import versions
from modelling.planning import stop_rule

_results: dict[bytes, bytes] = {}


@pytest.fixture(autouse=True)
def cached_fits() -> Iterator[None]:
    """Share every fit of the test; import it in a test module or a conftest to use it there."""
    with shared_fits():
        yield


@contextmanager
def shared_fits() -> Iterator[None]:
    """Share the fits in this block, for samples that are used in tests of fitting too."""
    with pytest.MonkeyPatch.context() as patch:
        for estimator in (CrowdGPPL, PaperSVIEngine):
            patch.setattr(estimator, "fit", _cached_fit(estimator.fit))
        patch.setattr(versions, "assess_workers", _cached(versions.assess_workers))
        patch.setattr(stop_rule, "continue_study", _cached(stop_rule.continue_study))
        yield


def _cached_fit(uncached: Callable[..., Any]) -> Callable[..., Any]:
    def fit(self: Any, labels: PairwiseLabels | LabelStore, **kwargs: Any) -> Any:
        if not isinstance(labels, PairwiseLabels):
            return uncached(self, labels, **kwargs)  # it may write rows
        progress, self.progress = self.progress, None
        key = pickle.dumps((type(self), vars(self), labels, kwargs))
        if key not in _results:
            self.progress = progress
            uncached(self, labels, **kwargs)
            self.progress = None
            _results[key] = pickle.dumps(vars(self))
        vars(self).update(pickle.loads(_results[key]))
        self.progress = progress
        return self

    return fit


def _cached(uncached: Callable[..., Any]) -> Callable[..., Any]:
    """Cache a function of arrays and fitted models; its random generators end in the same state."""

    def call(*args: Any) -> Any:
        models = [each for each in args if isinstance(each, CrowdGPPL)]
        reports = [model.progress for model in models]
        for model in models:
            model.progress = None
        key = pickle.dumps((uncached.__qualname__, args))
        if key not in _results:
            result = uncached(*args)
            _results[key] = pickle.dumps((result, [rng.bit_generator.state for rng in _generators(args)]))
        result, states = pickle.loads(_results[key])
        for rng, state in zip(_generators(args), states, strict=True):
            rng.bit_generator.state = state
        for model, report in zip(models, reports, strict=True):
            model.progress = report
        return result

    return call


def _generators(args: tuple[Any, ...]) -> list[np.random.Generator]:
    return [each for each in args if isinstance(each, np.random.Generator)]
