"""The models behind a version, together: they begin from scratch, go on with news, and are kept as arrays."""

from dataclasses import dataclass, replace

import numpy as np

from modelling.arrays import Arrays
from modelling.fitting import Progress, fit, refine, step
from modelling.inputs import Inputs, News, ids_of
from modelling.model_settings import ModelSettings
from modelling.scoreboard import Rivals
from modelling.snapshots import Fitted, arrays_of, fitted_from


@dataclass(frozen=True)
class Learner:
    """crowdGPPL and its rivals, which have learned from the same labels."""

    fitted: Fitted
    rivals: Rivals

    @classmethod
    def stored_in(cls, stored: Arrays) -> "Learner":
        """The learner whose `arrays` these are."""
        return cls(fitted_from(stored), Rivals.stored_in(stored))

    @classmethod
    def from_scratch(cls, inputs: Inputs, settings: ModelSettings, progress: Progress) -> "Learner":
        """Models of everything there is."""
        model, features, traits = fit(inputs, settings, progress=progress)
        refine(model, settings)
        active = np.flatnonzero([item.active for item in inputs.items])
        fitted = Fitted(model, features, traits, ids_of(inputs.items), ids_of(inputs.workers), active)
        progress("compare")
        return cls(fitted, Rivals.fitted_beside(fitted, progress))

    def gone_on(self, news: News, settings: ModelSettings, progress: Progress | None = None) -> "Learner":
        """The same models, changed in place, with what came and without what was taken back."""
        self.fitted.model.progress = progress
        step(self.fitted.model, news, self.fitted.traits)
        refine(self.fitted.model, settings)
        self.rivals.go_on(news)
        return replace(self, fitted=replace(self.fitted, worker_ids=news.worker_ids))

    def arrays(self) -> Arrays:
        return {**arrays_of(self.fitted), **self.rivals.arrays()}
