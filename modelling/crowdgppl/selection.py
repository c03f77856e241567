"""Choosing settings by leave-group-out validation inside the training labels: asked for, never hidden in a fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from .arrays import BoolArray, FloatArray, IntArray, matrix
from .choice import predictor_of
from .inducing import ItemSpace, spectral_space
from .inference import Rules, run
from .kernels import Kernel
from .labels import PairwiseLabels
from .ledger import Ledger
from .model import CrowdGPPL
from .posterior import Posterior
from .start import begin

Told = Callable[[str, int, int, float], None]  # the candidate's name, how many are done, of how many, its loss


@dataclass(frozen=True)
class Candidate:
    """One way to set up the model; `name` is for people."""

    name: str
    item_kernel: Kernel
    n_components: int = 0
    n_inducing_items: int | None = 100
    personal_variance: float = 1.0
    t_prior: tuple[float, float] = (1.0, 1.0)
    likelihood: str = "ep"
    max_iterations: int = 12

    def estimator(self, **settings: Any) -> CrowdGPPL:
        """A model set up this way, not fitted."""
        own = {name: value for name, value in vars(self).items() if name != "name"}
        return CrowdGPPL(**{**own, "finish": False, **settings})


@dataclass(frozen=True)
class Score:
    """What a candidate lost on each held-out part, and on all held-out labels together."""

    candidate: Candidate
    losses: tuple[float, ...]
    loss: float
    accuracy: float

    def difference(self, other: Score) -> tuple[float, float]:
        """Mean over parts of this loss minus the other's, and its standard error."""
        gaps = np.subtract(self.losses, other.losses)
        spread = float(gaps.std(ddof=1)) if len(gaps) > 1 else float("nan")
        return float(gaps.mean()), spread / len(gaps) ** 0.5


@dataclass(frozen=True)
class Selection:
    """The candidate with the least loss, and every score in the order of the candidates."""

    winner: Candidate
    table: tuple[Score, ...]

    @property
    def best(self) -> Score:
        """The winner's score."""
        return min(self.table, key=lambda score: score.loss)


@dataclass(frozen=True, eq=False)
class Tabulated:
    """The values of a kernel between known items, looked up; an item's only feature is its number."""

    K: FloatArray  # (N, N)

    def fit(self, X: FloatArray) -> Tabulated:
        return self

    def __call__(self, X: FloatArray, Y: FloatArray | None = None) -> FloatArray:
        return self.K[np.ix_(numbers_of(X), numbers_of(X if Y is None else Y))]

    def diagonal(self, X: FloatArray) -> FloatArray:
        return self.paired(X, X)

    def paired(self, X: FloatArray, Y: FloatArray) -> FloatArray:
        return self.K[numbers_of(X), numbers_of(Y)]

    def to_state(self) -> dict[str, Any]:
        return {"kind": "Tabulated", "K": self.K.tolist()}


def numbers_of(X: FloatArray) -> IntArray:
    """The items that rows of one feature name."""
    return np.asarray(X[:, 0].astype(np.int64))


@dataclass
class Whitenings:
    """Item spaces of one table of features, each kernel tabulated and factorised once for all sizes and splits."""

    X_items: FloatArray | None
    n_items: int
    largest: int = 200  # no candidate may ask for more directions
    _spaces: dict[Kernel, ItemSpace] = field(default_factory=dict, repr=False)
    _tables: dict[Kernel, Tabulated] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, X_items: npt.ArrayLike | None, n_items: int | None = None, largest: int = 200) -> Whitenings:
        """No item is whitened yet."""
        X = None if X_items is None else matrix(X_items, "X_items")
        if X is None and n_items is None:
            raise ValueError("Say how many items there are: give X_items or n_items.")
        return cls(X, len(X) if X is not None else int(n_items or 0), largest=largest)

    def space(self, candidate: Candidate) -> ItemSpace:
        """The items as this candidate sees them."""
        M = candidate.n_inducing_items
        if M is not None and self.largest < M:
            raise ValueError(
                f"The candidate {candidate.name!r} asks for {M} directions; at most {self.largest} are kept."
            )
        if candidate.item_kernel not in self._spaces:
            self._spaces[candidate.item_kernel] = self._factorised(candidate.item_kernel)
        return leading_part(self._spaces[candidate.item_kernel], M)

    def _factorised(self, kernel: Kernel) -> ItemSpace:
        if self.X_items is None:
            return ItemSpace(self.n_items)
        return spectral_space(self.numbers, self.table(kernel), self.largest)

    @property
    def numbers(self) -> FloatArray:
        """(N, 1): the only feature that a tabulated kernel asks of an item."""
        return np.arange(self.n_items, dtype=np.float64)[:, None]

    def table(self, kernel: Kernel) -> Tabulated:
        """All values of a kernel, computed once: for many fits to labels of the same known items."""
        if self.X_items is None:
            raise ValueError("Items without features have no kernel to tabulate.")
        if kernel not in self._tables:
            self._tables[kernel] = Tabulated(kernel.fit(self.X_items)(self.X_items))
        return self._tables[kernel]


@dataclass
class Starts:
    """Where fits to one set of labels may begin: the posteriors of the first candidate, one for each part left out.

    A candidate with the same items and components but other priors goes on from there, a few iterations instead of
    all. Others begin afresh, so that what is kept never grows beyond one candidate.
    """

    _key: tuple[Any, ...] | None = None
    _posts: dict[int, Posterior] = field(default_factory=dict, repr=False)

    def begin(self, post: Posterior, held: int, rules: Rules, rng: np.random.Generator) -> Posterior:
        """The posterior to go on from, the part `held` being left out: a kept one under these priors, or a new one."""
        kept = self._posts.get(held) if self._key == key_of(post) else None
        if kept is None:
            begin(post, rules, rng)
            return post
        warm, own = kept.copy(), post.scale_items
        own.shape[0], own.rate[0] = warm.scale_items.shape[0], warm.scale_items.rate[0]
        warm.scale_items = own
        warm.refresh_pairs()
        return warm

    def keep(self, post: Posterior, held: int) -> None:
        """This posterior came to rest; the first candidate's are kept."""
        if self._key in (None, key_of(post)):
            self._key = key_of(post)
            self._posts[held] = post.copy()


def key_of(post: Posterior) -> tuple[Any, ...]:
    """What two posteriors must have in common for one to begin where the other ended."""
    return post.space.kernel, post.space.M, post.n_components


def leading_part(space: ItemSpace, M: int | None) -> ItemSpace:
    """The first M directions of a spectral space."""
    if space.Psi is None or space.map is None or M is None or space.M <= M:
        return space
    return replace(space, map=space.map[:, :M], Psi=np.ascontiguousarray(space.Psi[:, :M]))


def deal_groups(groups: IntArray, labels: PairwiseLabels, n_parts: int) -> IntArray:
    """The part (0 .. n_parts - 1) of each item: whole groups, the largest first, always to the emptiest part."""
    names, group = np.unique(groups, return_inverse=True)
    if len(names) < 2:
        raise ValueError("Leaving groups out needs at least two groups.")
    sizes = np.bincount(group[labels.a], minlength=len(names))
    part_of, filled = np.zeros(len(names), dtype=np.int64), np.zeros(min(n_parts, len(names)))
    for name in np.argsort(-sizes, kind="stable"):
        part_of[name] = int(filled.argmin())
        filled[part_of[name]] += sizes[name] + 1e-9
    return part_of[group]


def select(
    labels: PairwiseLabels,
    groups: npt.ArrayLike,
    candidates: Sequence[Candidate],
    whitenings: Whitenings,
    *,
    n_users: int | None = None,
    n_parts: int = 4,
    seed: int = 0,
    progress: Told | None = None,
    starts: Starts | None = None,
) -> Selection:
    """The candidate that best predicts the labels of groups of items it has not seen.

    `groups` is the group of each item. Labels across two parts are neither learned from nor predicted. `starts` are
    for asking about the same labels more than once.
    """
    starts = Starts() if starts is None else starts
    part = deal_groups(np.asarray(groups), labels, n_parts)
    names = [candidate.name for candidate in candidates]
    if not names or len(set(names)) < len(names):
        raise ValueError("Give at least one candidate, and each a name of its own.")
    table = []
    for done, candidate in enumerate(candidates):
        U = labels.n_users if n_users is None else n_users
        score = validate(candidate, labels, part, whitenings, U, seed, starts)
        table.append(score)
        if progress is not None:
            progress(candidate.name, done + 1, len(candidates), score.loss)
    return Selection(min(table, key=lambda score: score.loss).candidate, tuple(table))


def validate(
    candidate: Candidate,
    labels: PairwiseLabels,
    part: IntArray,
    whitenings: Whitenings,
    n_users: int,
    seed: int,
    starts: Starts,
) -> Score:
    """What a candidate loses on each part after learning from the others."""
    space, each, right = whitenings.space(candidate), [], []
    for held in range(int(part.max()) + 1):
        inside = (part[labels.a] == held) & (part[labels.b] == held)
        outside = (part[labels.a] != held) & (part[labels.b] != held)
        if not inside.any() or not outside.any():
            continue
        post = candidate.estimator()._blank(
            space, Ledger.of(labels.take(outside), space.n_items, n_users), candidate.personal_variance
        )
        p = predicted(candidate, post, held, labels.take(inside), seed, starts)
        each.append(answer_losses(p, labels.take(inside)))
        right.append(answers_right(p, labels.y[inside]))
    if not each:
        raise ValueError("No label compares two items of one held-out part.")
    losses = tuple(float(part_losses.mean()) for part_losses in each)
    return Score(candidate, losses, float(np.concatenate(each).mean()), float(np.concatenate(right).mean()))


def predicted(
    candidate: Candidate, post: Posterior, part: int, held: PairwiseLabels, seed: int, starts: Starts
) -> FloatArray:
    """P(a preferred) for each label of the part held out, by a posterior of the others."""
    rules = Rules(candidate.likelihood, candidate.estimator().tolerance, candidate.max_iterations)
    post = starts.begin(post, part, rules, np.random.default_rng(seed))
    run(post, rules)
    starts.keep(post, part)
    return predictor_of(post).proba(held.u, held.a, held.b)


def answer_losses(p: FloatArray, labels: PairwiseLabels) -> FloatArray:
    """Minus the log probability of each answer, a tie counting half for each."""
    p = np.clip(p, 1e-12, 1.0 - 1e-12)
    return np.asarray(-labels.weights * (labels.y * np.log(p) + (1.0 - labels.y) * np.log1p(-p)))


def answers_right(p: FloatArray, y: FloatArray) -> BoolArray:
    """Whether each answer that was not a tie is the one expected."""
    decided = y != 0.5
    return np.asarray((p[decided] > 0.5) == (y[decided] > 0.5))
