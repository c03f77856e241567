"""Share fits among the tests of a process: most page tests fit the same small study, which takes most of their time.

A fit is deterministic, so a copy of an earlier one with equal settings and inputs is as good. Not for tests of fitting.
"""

import pickle
from typing import Any

import pytest

from modelling.crowdgppl import CrowdGPPL

_fits: dict[bytes, bytes] = {}


@pytest.fixture(autouse=True)
def cached_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    uncached_fit = CrowdGPPL.fit

    def fit(self: CrowdGPPL, *args: Any, **kwargs: Any) -> CrowdGPPL:
        progress, self.progress = self.progress, None
        key = pickle.dumps((vars(self), args, kwargs))
        if key not in _fits:
            self.progress = progress
            uncached_fit(self, *args, **kwargs)
            self.progress = None
            _fits[key] = pickle.dumps(vars(self))
        vars(self).update(pickle.loads(_fits[key]))
        self.progress = progress
        return self

    monkeypatch.setattr(CrowdGPPL, "fit", fit)
