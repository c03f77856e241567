"""The scale of the personal part, chosen on held-out training labels; and whether the private rest helps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import log_ndtr

from .finish import finished, rest_root
from .inducing import ItemSpace, ItemView
from .inference import Rules, iterate
from .labels import PairwiseLabels
from .ledger import Ledger
from .posterior import Finish, Posterior
from .predict import Predictor
from .rest import RestPredictor
from .start import begin
from .users import user_step

TYPICAL_VARIANCE = 20.0  # the centre of the search: total prior variance of the personal part
SPREAD = 0.7  # sd of its log-normal prior: it matters only where labels are few
FACTOR = 4.0  # between neighbouring candidates
FURTHEST = 3  # candidates on either side
BASE_ITERATIONS, CANDIDATE_ITERATIONS = 8, 5
HELD_OUT = 0.1
SHARES = (0.1, 0.3, 1.0)  # of the private rest, between which held-out labels decide
SEARCH_LABELS = 6_000  # with more, a random part of the users is enough to choose by

Blank = Callable[[ItemSpace, Ledger, float], Posterior]
Told = Callable[[str, int, int, float], None]


@dataclass
class Split:
    """A warm posterior on nine tenths of the labels, and the tenth to score it by."""

    base: Posterior
    held: PairwiseLabels
    candidates: dict[int, Posterior]


@dataclass(frozen=True)
class Choice:
    """The chosen variance, whether the rest lowered the held-out loss, and the losses without and with it.

    `share` says how much of the private rest personal intervals count on.
    """

    variance: float
    personal_rest: bool
    losses: tuple[float, float]
    share: float = 1.0


def search_labels(labels: PairwiseLabels, rng: np.random.Generator) -> PairwiseLabels:
    """All labels, or those of a random part of the users where there are many."""
    if len(labels) <= 2 * SEARCH_LABELS:
        return labels
    users, counts = np.unique(labels.u, return_counts=True)
    order = rng.permutation(len(users))
    enough = int(np.searchsorted(np.cumsum(counts[order]), SEARCH_LABELS)) + 1
    chosen = np.sort(users[order[:enough]])
    rows = np.flatnonzero(np.isin(labels.u, chosen))
    part = labels.take(rows)
    return PairwiseLabels(np.searchsorted(chosen, part.u), part.a, part.b, part.y, part.weights)


def split_count(n_labels: int) -> int:
    """More splits where one would be noisy."""
    return 3 if n_labels <= 1000 else 2 if n_labels <= 5000 else 1


def make_split(space: ItemSpace, labels: PairwiseLabels, blank: Blank, rules: Rules, rng: np.random.Generator) -> Split:
    """A base fit at the typical variance, without the held-out tenth."""
    order = rng.permutation(len(labels))
    count = max(1, int(HELD_OUT * len(labels)))
    train = labels.take(np.sort(order[count:]))
    base = blank(space, Ledger.of(train, space.n_items, labels.n_users), TYPICAL_VARIANCE)
    begin(base, rules, rng)
    for _ in range(BASE_ITERATIONS):
        iterate(base, rules)
    return Split(base, labels.take(np.sort(order[:count])), {})


def candidate(split: Split, step: int, rules: Rules) -> Posterior:
    """A warm copy of the base, a few iterations on at this step's variance."""
    if step not in split.candidates:
        post = split.base.copy()
        post.scale_items.fix(slice(1, None), post.n_components / variance_at(step))
        post.refresh_pairs()
        for _ in range(CANDIDATE_ITERATIONS):
            iterate(post, rules)
        user_step(post.ledger, post.pairs, post.sites, post.s_w, post.users, post.moments)
        split.candidates[step] = post
    return split.candidates[step]


def variance_at(step: float) -> float:
    """The variance of a candidate."""
    return float(TYPICAL_VARIANCE * FACTOR**step)


def predictor_of(post: Posterior) -> Predictor:
    """Mean-field predictions of a posterior."""
    view = ItemView(post.space)
    s = post.scale_items.mean
    return Predictor(view, post.items, s, post.users.W, post.users.Omega, post.s_w, post.items.cov[0])


def log_loss(predictor: Predictor, labels: PairwiseLabels) -> float:
    """Mean minus log probability of the labels, a tie counting as half of each answer."""
    m, v = predictor.moments(labels.u, labels.a, labels.b)
    x = m / np.sqrt(1.0 + v)
    each = labels.y * log_ndtr(x) + (1.0 - labels.y) * log_ndtr(-x)
    total = float(labels.weights.sum())
    return float(-(labels.weights * each).sum() / total) if total > 0 else 0.0


def finished_losses(post: Posterior, labels: PairwiseLabels, rules: Rules) -> tuple[float, float]:
    """The held-out loss of a finished posterior without the private rest, and with it."""
    finish = finished(post, rules, personal=True)
    post.finish = replace(finish, personal=False)
    return log_loss(predictor_of(post), labels), rest_loss(post, finish, labels)


def rest_loss(post: Posterior, finish: Finish, labels: PairwiseLabels) -> float:
    """The held-out loss with this private rest."""
    plain = predictor_of(post)
    parts = (plain.view, plain.items, plain.s, plain.W, plain.Omega, plain.s_w, finish.S_t)
    return log_loss(RestPredictor(*parts, post, finish), labels)


def expected_share(splits: list[Split], step: int) -> float:
    """The mean share of the private rest, each candidate weighed by the likelihood it gives the held-out labels.

    The rest is what the uncertainty of the v_c would add to every user if it were their own. How much of it is real
    depends on how many tastes there are: only labels that were not learned from can tell.
    """
    total = np.zeros(len(SHARES))
    for split in splits:
        post = split.candidates[step]
        S_t = post.items.cov[0] if post.finish is None else post.finish.S_t
        for place, share in enumerate(SHARES):
            finish = Finish(S_t, rest_root(post, S_t, share), post.lam, post.tau, personal=True)
            total[place] -= len(split.held) * rest_loss(post, finish, split.held)
    weights = np.exp(total - total.max())
    return float(weights @ SHARES / weights.sum())


def search(objective: Callable[[int], float]) -> dict[int, float]:
    """The objective at steps walked downhill from 0, each way no further than needed."""
    scores = {0: objective(0)}
    for direction in (-1, 1):
        step = direction
        while abs(step) <= FURTHEST:
            scores[step] = objective(step)
            if scores[step] >= scores[step - direction]:
                break
            step += direction
        if direction == -1 and min(scores, key=scores.__getitem__) < 0:
            break
    return scores


def vertex(scores: dict[int, float]) -> float:
    """The lowest point of the parabola through the best step and its neighbours."""
    best = min(scores, key=scores.__getitem__)
    if best - 1 not in scores or best + 1 not in scores:
        return float(best)
    left, mid, right = scores[best - 1], scores[best], scores[best + 1]
    curvature = left - 2.0 * mid + right
    return best + (0.5 * (left - right) / curvature if curvature > 0 else 0.0)


def choose(
    space: ItemSpace,
    labels: PairwiseLabels,
    blank: Blank,
    rules: Rules,
    rng: np.random.Generator,
    rest: bool | None,
    told: Told | None = None,
) -> Choice:
    """The personal variance with the least held-out loss plus prior; `rest` None asks whether the rest helps."""
    part = search_labels(labels, rng)
    quick = replace(rules, tolerance=0.0)
    splits = [make_split(space, part, blank, quick, rng) for _ in range(split_count(len(labels)))]

    def objective(step: int) -> float:
        loss = float(np.mean([log_loss(predictor_of(candidate(s, step, quick)), s.held) for s in splits]))
        if told is not None:
            told("choose", abs(step), FURTHEST, loss)
        return float(len(part) * loss + 0.5 * (np.log(variance_at(step) / TYPICAL_VARIANCE) / SPREAD) ** 2)

    scores = search(objective)
    best = min(scores, key=scores.__getitem__)
    variance = variance_at(vertex(scores))
    losses = [finished_losses(candidate(split, best, quick), split.held, quick) for split in splits]
    plain, with_rest = (float(np.mean(each)) for each in zip(*losses, strict=True))
    wanted = with_rest < plain if rest is None else rest
    return Choice(variance, wanted, (plain, with_rest), expected_share(splits, best))
