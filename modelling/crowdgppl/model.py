"""CrowdGPPL: the estimator. It checks what comes in and hands the work to the modules beside it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from .arrays import FloatArray, State
from .bound import lower_bound
from .checks import count_rows, one_of, optional_matrix, positive
from .choice import TYPICAL_VARIANCE, Choice, choose
from .feeding import begin_by_sample, finish_fed, keep_means, lower_bound_fed, run_fed, sample
from .finish import finished
from .inducing import ItemSpace, item_space
from .inference import Rules, run
from .judging import foretell_new, judge_everybody
from .kernels import Kernel, Matern32, kernel_from_state
from .labels import PairwiseLabels
from .ledger import Ledger
from .posterior import Posterior, blank_posterior, prior_scales
from .predictions import Predictions
from .refining import refined
from .reliability import Reliability
from .sources import LabelSource
from .start import begin
from .state import draws_from, keep_draws, posterior_from_state, posterior_to_state, unwords, words
from .streaming import find_rows, grow_items, grow_users, hold, update, with_labels, without_labels
from .svi import EPOCHS, Steps, run_svi
from .traits import Traits
from .users import KeptMeans

Progress = Callable[[str, int, int, float], None]  # stage, iteration, most iterations, change of z (or loss)

MANY_IMPROPER = 0.05  # share of labels with an improper cavity that is worth a warning
JUDGEMENTS = 2  # times that workers are judged in a fit from scratch, the preferences learned again after each
SETTINGS = (
    "n_components", "n_inducing_items", "n_inducing_users", "consensus", "batch_size", "forgetting_rate", "delay",
    "item_kernel", "user_kernel", "t_prior", "v_prior", "w_prior", "personal_variance", "scales", "likelihood",
    "random_state", "inducing", "finish", "reliability", "max_iterations", "tolerance", "track_bound",
)  # fmt: skip


class CrowdGPPL(Predictions):
    """Preferences of a crowd from pairwise labels: a consensus t and personal tastes (eq:vw_plus_t).

    Parameters beyond the obvious
    -----------------------------
    n_components: most components of taste; never more than there are users. 0 is GPPL, one utility for all.
    n_inducing_items: directions kept of the item covariance; None keeps all. `inducing` says how they are chosen.
    batch_size: users per mini-batch; None takes all at once. Steps are (i + delay) ** -forgetting_rate.
    personal_variance: total prior variance of the personal part, or "auto": chosen on held-out training labels.
    scales: "shared" by all components, or "ard": one learned scale each, under v_prior and w_prior (shape, rate).
    finish: settle t with tastes integrated out, and give each user a private rest beside the components: True, False
    (neither), or "auto": the rest only where the choice of personal_variance found that it lowers the held-out loss.
    reliability: learn how sharply each user's answers follow their preferences, so that random clickers lose weight.
    progress: called with stage, iteration, most iterations and change.
    """

    def __init__(
        self,
        n_components: int = 20,
        n_inducing_items: int | None = 200,
        n_inducing_users: int | None = None,
        consensus: bool = True,
        batch_size: int | None = None,
        forgetting_rate: float = 0.3,
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
        finish: bool | str = "auto",
        reliability: bool = False,
        max_iterations: int = 25,
        tolerance: float = 1e-2,
        track_bound: bool = False,
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
        self.finish = finish
        self.reliability = reliability
        self.max_iterations = max_iterations
        self.tolerance = tolerance
        self.track_bound = track_bound
        self.progress = progress
        self._check_settings()

    def _check_settings(self) -> None:
        if self.n_components < 0:
            raise ValueError("n_components must be 0 (no personal part) or more.")
        one_of(self.likelihood, ("ep", "vb", "linear"), "likelihood")
        one_of(self.scales, ("shared", "ard"), "scales")
        one_of(self.inducing, ("auto", "spectral", "kmeans"), "inducing")
        if isinstance(self.personal_variance, str):
            one_of(self.personal_variance, ("auto",), "personal_variance (a number, or a word)")
        else:
            positive(self.personal_variance, "personal_variance")
        for name in ("t_prior", "v_prior", "w_prior"):
            for value in getattr(self, name):
                positive(value, name)
        for name in ("n_inducing_items", "n_inducing_users", "batch_size"):
            if getattr(self, name) is not None:
                positive(getattr(self, name), name)

    # Learning

    def fit(
        self,
        labels: PairwiseLabels | LabelSource,
        X_items: npt.ArrayLike | None = None,
        X_users: npt.ArrayLike | None = None,
        n_items: int | None = None,
        n_users: int | None = None,
    ) -> CrowdGPPL:
        """The posterior given these labels alone; whatever was learned before is gone.

        Labels that memory cannot hold come from a source (see sources.py), `batch_size` users at a time.
        """
        X, Z = optional_matrix(X_items, "X_items"), optional_matrix(X_users, "X_users")
        N = count_rows(labels.n_items, n_items, X, "items")
        U = count_rows(labels.n_users, n_users, Z, "users")
        if len(labels) == 0:
            raise ValueError("There are no labels to learn from.")
        self._rng = np.random.default_rng(self.random_state)
        self._cursor, self._fitted_on = 0, len(labels)
        self._bounds: list[float] = []
        space = item_space(X, N, self.item_kernel, self.n_inducing_items, self.inducing, self.random_state)
        if not isinstance(labels, PairwiseLabels):
            return self._fit_from(labels, space, U, Z)
        self._source = None
        ledger = Ledger.of(labels, N, U)
        self.choice_ = self._choose(space, ledger)
        post = self._blank(space, ledger, self.choice_.variance)
        if Z is not None and post.n_components:
            post.traits = Traits.of(Z, self.user_kernel, self.n_inducing_users, post.n_components, self.random_state)
        begin(post, self._rules, self._rng)
        self._run(post)
        if self.reliability:
            self._judge(post)
        choice = self.choice_
        post.finish = finished(post, self._rules, choice.personal_rest, self.finish is not False, choice.share)
        hold(post, self.converged_)
        self._keep(post)
        return self

    def _judge(self, post: Posterior) -> None:
        """Workers judged by the preferences, the preferences learned again by whom they may be learned from."""
        for _ in range(JUDGEMENTS):
            judge_everybody(post, self._rules, self._rng)
            self._run(post)

    def _fit_from(self, source: LabelSource, space: ItemSpace, U: int, Z: FloatArray | None) -> CrowdGPPL:
        """The same from a source: neither sites nor covariances of users are kept, and no private rest."""
        if self.batch_size is None:
            raise ValueError("A source of labels is read in batches of users: give batch_size.")
        if Z is not None or self.finish is True or self.reliability:
            raise ValueError(
                "Traits (X_users), a private rest (finish=True) and reliability need all labels in memory."
            )
        size, rules = self.batch_size, self._rules
        drawn = sample(source, size, self._rng)
        ledger = Ledger.of(drawn, space.n_items, drawn.n_users)
        self.choice_ = replace(self._choose(space, ledger), personal_rest=False)
        start = self._blank(space, ledger, self.choice_.variance)
        world = self._blank(space, ledger.without_labels(), self.choice_.variance, start.n_components)
        begin_by_sample(world, start, rules, self._rng)
        steps = Steps(size, self.forgetting_rate, self.delay)
        self.n_iter_, self.converged_ = run_fed(world, source, rules, steps, self._rng, self._tell("fit"))
        world.finish = finish_fed(world, source, rules, size, self.finish is not False, self._tell("finish"))
        world.finish.share = self.choice_.share
        keep_means(world, source, rules, size, U, self._tell("users"))
        self._source = source
        self._keep(world)
        return self

    def _tell(self, stage: str) -> Callable[[int, int, float], None]:
        return partial(self.progress, stage) if self.progress is not None else lambda *_: None

    def _choose(self, space: ItemSpace, ledger: Ledger) -> Choice:
        rest = self.finish if isinstance(self.finish, bool) else None
        several = int((ledger.counts > 0).sum()) > 1 and self.n_components > 0
        if not isinstance(self.personal_variance, str):
            return Choice(self.personal_variance, bool(rest), (0.0, 0.0))
        if self.scales == "ard" or not several:
            return Choice(TYPICAL_VARIANCE, bool(rest), (0.0, 0.0))
        return choose(space, ledger.labels, self._blank, self._rules, self._rng, rest, self.progress)

    def _blank(self, space: ItemSpace, ledger: Ledger, variance: float, n_components: int | None = None) -> Posterior:
        C = self._most_components(ledger) if n_components is None else n_components
        ard = self.scales == "ard"
        scale_items, scale_users = prior_scales(C, self.t_prior, self.v_prior, self.w_prior, ard)
        if not ard:
            scale_items.fix(slice(1, None), C / variance)
            scale_users.fix(slice(None), 1.0)
        post = blank_posterior(space, ledger, scale_items, scale_users, self.consensus)
        post.reliability = Reliability.prior(ledger.n_users, ledger.n_labels) if self.reliability else None
        return post

    def _most_components(self, ledger: Ledger) -> int:
        """No more components than users; one user's taste is the consensus."""
        present = int((ledger.counts > 0).sum())
        return 0 if present < 2 and self.consensus else min(self.n_components, present)

    def _run(self, post: Posterior) -> None:
        def each(iteration: int, change: float) -> None:
            if self.progress is not None:
                self.progress("fit", iteration, EPOCHS if self.batch_size else self.max_iterations, change)
            if self.track_bound:
                self._bounds.append(lower_bound(post))

        if self.batch_size is None or self.batch_size >= (post.ledger.counts > 0).sum() or post.n_components == 0:
            self.n_iter_, self.converged_ = run(post, self._rules, each)
        else:
            steps = Steps(self.batch_size, self.forgetting_rate, self.delay)
            self.n_iter_, self.converged_ = run_svi(post, self._rules, steps, self._rng, each)

    @property
    def _rules(self) -> Rules:
        return Rules(self.likelihood, self.tolerance, self.max_iterations)

    def _keep(self, post: Posterior) -> None:
        self._posterior, self._axes, self._bound, self._draws = post, None, None, None
        self.n_items_, self.n_users_, self.n_components_ = post.space.n_items, len(post.users.W), post.n_components
        self.warnings_: list[str] = []
        if post.improper > MANY_IMPROPER:
            self.warnings_.append(f"{post.improper:.0%} of the labels kept an older site (improper cavity).")
        if not self.converged_:
            self.warnings_.append(f"The fit stopped after {self.n_iter_} iterations before it came to rest.")

    def refine(self) -> CrowdGPPL:
        """Predictions by draws of the exact posterior, on small data, until labels come or go.

        Where personal_variance is a number the scales of tastes are held at it; where it is "auto" every taste has its
        own: omega2 makes up for what mean field loses, and the exact posterior loses nothing. Where the draws do not
        mix, everything stays as it was and `warnings_` says so.
        """
        if why := self.hindrance_:
            raise ValueError(why)
        own_scales = self.scales == "shared" and isinstance(self.personal_variance, str)
        draws = refined(self._post, own_scales, self.random_state, self._tell("refine"))
        if draws.mixing.usable:
            self._draws = draws
        else:
            told = f"Not refined: the draws did not mix (R-hat {draws.mixing.r_hat:.2f})."
            self.warnings_ = [*self.warnings_, told]
        return self

    def partial_fit(
        self,
        labels: PairwiseLabels,
        X_items: npt.ArrayLike | None = None,
        X_users: npt.ArrayLike | None = None,
        n_items: int | None = None,
        n_users: int | None = None,
    ) -> CrowdGPPL:
        """The posterior with these new labels too: t, the v_c and the users move. X_* hold all rows, new ones last."""
        if self._posterior is None:
            return self.fit(labels, X_items, X_users, n_items, n_users)
        X, Z = optional_matrix(X_items, "X_items"), optional_matrix(X_users, "X_users")
        N = count_rows(labels.n_items, n_items, X, "items", self.n_items_)
        U = count_rows(labels.n_users, n_users, Z, "users", self.n_users_)
        post = self._with_labels
        self._grow(post, N, U, X, Z)
        foretell_new(post, labels, self._rules)
        with_labels(post, labels)
        if self._outgrown(post):
            return self._refit(post)
        self._cursor = update(post, np.unique(labels.u), len(labels), self._cursor, self._rules)
        self._keep(post)
        return self

    def _grow(self, post: Posterior, N: int, U: int, X: FloatArray | None, Z: FloatArray | None) -> None:
        if self.n_users_ < U and post.traits is not None and Z is None:
            raise ValueError("New users need traits: the model was fitted with X_users.")
        if self.n_items_ < N:
            room = N if self.n_inducing_items is None else max(0, self.n_inducing_items - post.space.M)
            grow_items(post, None if X is None else X[self.n_items_ :], N - self.n_items_, room)
        if self.n_users_ < U:
            grow_users(post, U, None if Z is None else Z[self.n_users_ :])

    def _outgrown(self, post: Posterior) -> bool:
        """More components are possible now, or there are twice the labels of the last fit from scratch.

        Small steps cannot wake a component that few labels had put to sleep: v = w = 0 is a saddle.
        """
        return self._most_components(post.ledger) > post.n_components or post.ledger.n_labels >= 2 * self._fitted_on

    def _refit(self, post: Posterior) -> CrowdGPPL:
        """From scratch on all labels."""
        X_users = None if post.traits is None else post.traits.space.X
        return self.fit(post.ledger.labels, post.space.X, X_users, post.space.n_items, len(post.users.W))

    def forget(self, labels: PairwiseLabels) -> CrowdGPPL:
        """The posterior without these labels: their sites are exactly gone, and what they moved moves back."""
        post = self._with_labels
        without_labels(post, find_rows(post.ledger, labels))
        self._fitted_on = min(self._fitted_on, post.ledger.n_labels)
        self._cursor = update(post, np.unique(labels.u), len(labels), self._cursor, self._rules)
        self._keep(post)
        return self

    @property
    def _with_labels(self) -> Posterior:
        if isinstance(self._post.users, KeptMeans):
            raise ValueError("A model fed by a source keeps no labels to add to or take from: fit it again.")
        return self._post

    @property
    def lower_bounds_(self) -> list[float]:
        """The evidence lower bound after each iteration where it was tracked; last, of the present posterior.

        The finish may move t off the top of the bound.
        """
        if self._bound is None:
            fed = isinstance(self._post.users, KeptMeans)
            self._bound = lower_bound_fed(self._post, *self._reading) if fed else lower_bound(self._post)
        return [*self._bounds, self._bound]

    # Keeping

    def to_state(self) -> State:
        """A flat dict of arrays from which `from_state` continues as if nothing had happened."""
        state = posterior_to_state(self._post)
        settings = {name: getattr(self, name) for name in SETTINGS}
        for name in ("item_kernel", "user_kernel"):
            settings[name] = settings[name].to_state()
        state["settings"] = words(settings)
        course = {"n_iter": self.n_iter_, "converged": self.converged_, "warnings": self.warnings_}
        course |= {"bounds": self._bounds, "cursor": self._cursor, "rng": self._rng.bit_generator.state}
        choice = self.choice_
        course["fitted_on"] = self._fitted_on
        course["choice"] = [choice.variance, choice.personal_rest, list(choice.losses), choice.share]
        state["course"] = words(course)
        keep_draws(state, self._draws)
        return state

    @classmethod
    def from_state(cls, state: State, progress: Progress | None = None, source: LabelSource | None = None) -> CrowdGPPL:
        """The model that `to_state` wrote; the source, where it was fed by one, is not in the state."""
        settings: dict[str, Any] = unwords(state["settings"])
        for name in ("item_kernel", "user_kernel"):
            settings[name] = kernel_from_state(settings[name])
        for name in ("t_prior", "v_prior", "w_prior"):
            settings[name] = tuple(settings[name])
        model = cls(**settings, progress=progress)
        course = unwords(state["course"])
        model._rng = np.random.default_rng()
        model._rng.bit_generator.state = course["rng"]
        model._cursor, model._fitted_on = course["cursor"], course["fitted_on"]
        model.n_iter_, model.converged_ = course["n_iter"], course["converged"]
        model._bounds = course["bounds"]
        variance, rest, losses, *share = course["choice"]
        model.choice_ = Choice(variance, rest, (losses[0], losses[1]), *share)
        model._source = source
        model._keep(posterior_from_state(state))
        model._draws = draws_from(state, model._post.space)
        model.warnings_ = course["warnings"]
        return model
