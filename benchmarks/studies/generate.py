"""Simulated studies over the ranges of real ones: numbers of items, judges, designs, tastes, texts and noise.

Study `index` is the same on every machine: its parameters are point `index` of one scrambled Sobol sequence, so that
any run of consecutive indices covers the ranges, and its random numbers come from its own generator. Replicates of a
study share its parameters and differ in all random numbers: they separate a systematic loss from chance.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtr
from scipy.stats import qmc

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SEED = 20_240_601
MOST_LABELS = 200_000
FEWEST_LABELS = 100  # with fewer, the model nearest to the truth is a matter of chance
FEWEST_EACH, MOST_EACH = 2, 600
LABELS_PER_ITEM, SPARSE_LABELS_PER_ITEM, SPARSE = 3.0, 1.0, 0.1  # minima; the second for a share of SPARSE
N_TEST = 20_000  # fresh (judge, pair) draws
N_FRESH_JUDGES = 200  # behind the answer of a random member of the crowd
LOGISTIC = 1.702  # the logistic distribution at this scale is nearest to the standard normal
FOURIER = 60  # random features of a smooth function of the item features
DIMENSIONS = 24  # of the Sobol sequence; some are spare


@dataclass(frozen=True)
class Parameters:
    """The parameters of a simulated study."""

    index: int
    n_items: int
    n_judges: int
    labels_each: float  # mean number of labels of a judge
    spread: float  # sd of the log number of a judge's labels
    pairing: str  # balanced or adaptive
    n_groups: int  # items are compared only within a group
    one_group_each: bool  # each judge works in one group only
    n_features: int  # 0: items without features
    informative: float  # share of the variance of scores and tastes that follows the features
    tastes: str  # none, low-rank, full-rank or clusters
    rank: int  # components, or clusters
    taste_ratio: float  # sd of personal deviations / sd of the consensus
    clarity: float  # sd of a judge's utilities, in units of the noise
    heavy_tails: bool  # consensus scores from Student's t with 3 degrees of freedom
    logistic: bool  # logistic noise in place of normal
    tie_share: float  # wanted share of ties
    careless: float  # share of judges who answer at random, wholly or often
    sharpness: float  # sd of the log of a judge's own scale


@dataclass(frozen=True)
class Labels:
    """Who (u) compared a with b; y is 1 (a preferred), 0, or .5 (tie). In order of time."""

    u: Ints
    a: Ints
    b: Ints
    y: Floats

    def __len__(self) -> int:
        return len(self.y)

    def take(self, rows: Any) -> Labels:
        """Select these labels."""
        return Labels(self.u[rows], self.a[rows], self.b[rows], self.y[rows])


@dataclass(frozen=True)
class Test:
    """Fresh (judge, pair) draws with the expected answer E[y] of that judge and of a random new member of the crowd."""

    u: Ints
    a: Ints
    b: Ints
    personal: Floats
    random_member: Floats


@dataclass(frozen=True)
class Study:
    """Training labels, and test pairs with their true probabilities."""

    parameters: Parameters
    labels: Labels
    X_items: Floats | None
    group: Ints
    tests: dict[
        str, Test
    ]  # "design": pairs as the design would go on; "uniform": any pair, where the design is adaptive
    n_items: int
    n_judges: int

    def description(self) -> dict[str, Any]:
        """The parameters, and statistics of the generated labels."""
        seen = {"n_labels": len(self.labels), "ties": float((self.labels.y == 0.5).mean())}
        return {**asdict(self.parameters), **seen}


def parameters_of(index: int) -> Parameters:
    """The parameters of study `index`."""
    sequence = qmc.Sobol(DIMENSIONS, scramble=True, rng=np.random.default_rng(SEED))
    if index:
        sequence.fast_forward(index)
    x = iter(sequence.random(1)[0])

    def log_uniform(low: float, high: float) -> float:
        return float(low * (high / low) ** next(x))

    def uniform_or_zero(zero: float, low: float, high: float) -> float:
        """0 with probability `zero`, else uniform."""
        at = next(x)
        return 0.0 if at < zero else float(low + (high - low) * (at - zero) / (1 - zero))

    n_items, n_judges = log_uniform(5, 2000), round(log_uniform(5, 5000))
    labels_each = min(log_uniform(FEWEST_EACH, MOST_EACH), MOST_LABELS / n_judges)
    labels_each = max(labels_each, FEWEST_LABELS / n_judges)
    density = SPARSE_LABELS_PER_ITEM if next(x) < SPARSE else LABELS_PER_ITEM
    n_items = max(5, min(n_items, labels_each * n_judges / density))
    spread = uniform_or_zero(0.3, 0.2, 1.2)
    pairing = "adaptive" if next(x) < 0.3 else "balanced"
    in_groups, groups = next(x) < 0.2, log_uniform(2, max(2.0, n_items / 4))
    one_group_each = next(x) < 0.5 and in_groups and pairing == "balanced"
    with_features, width = next(x) < 0.6, log_uniform(5, 300.99)
    informative = uniform_or_zero(0.25, 0.1, 0.95)
    kind = next(x)
    tastes = "none" if kind < 0.25 else "low-rank" if kind < 0.6 else "full-rank" if kind < 0.85 else "clusters"
    rank = 1 + int(5 * next(x) ** 2)
    ratio, clarity = log_uniform(0.2, 3), log_uniform(0.25, 3)
    return Parameters(
        index=index,
        n_items=round(n_items),
        n_judges=n_judges,
        labels_each=labels_each,
        spread=spread,
        pairing=pairing,
        n_groups=round(groups) if in_groups and n_items >= 8 else 1,
        one_group_each=bool(one_group_each and n_items >= 8),
        n_features=int(width) if with_features else 0,
        informative=informative if with_features else 0.0,
        tastes=tastes,
        rank=max(rank, 2) if tastes == "clusters" else rank,
        taste_ratio=0.0 if tastes == "none" else ratio,
        clarity=clarity,
        heavy_tails=bool(next(x) < 0.25),
        logistic=bool(next(x) < 0.35),
        tie_share=uniform_or_zero(0.7, 0.05, 0.5),
        careless=uniform_or_zero(0.6, 0.05, 0.3),
        sharpness=uniform_or_zero(0.6, 0.2, 0.8),
    )


def generate(index: int, replicate: int = 0, parameters: Parameters | None = None) -> Study:
    """Simulate a replicate of study `index`, or of a study with these parameters."""
    p = parameters_of(index) if parameters is None else parameters
    rng = np.random.default_rng([SEED, index, replicate])
    group = np.sort(rng.permutation(p.n_items) % p.n_groups)
    X, smooth = _features(rng, p)
    crowd = _Crowd(rng, p, smooth)
    slots = _slots(rng, p)
    if p.pairing == "adaptive":
        labels, design = _adaptive(rng, crowd, slots, group)
        tests = {"design": design, "uniform": _uniform(rng, slots, group, None)}
    else:
        workplace = rng.integers(p.n_groups, size=p.n_judges) if p.one_group_each else None
        u, a, b = _balanced(rng, slots, group, workplace)
        labels = Labels(u, a, b, crowd.answer(rng, u, a, b))
        tests = {"design": _uniform(rng, slots, group, workplace)}
    scored = {name: Test(*rows, crowd.expected(*rows), crowd.of_new_judges(*rows[1:])) for name, rows in tests.items()}
    return Study(p, labels, X, group, scored, p.n_items, p.n_judges)


class _Crowd:
    """Utilities and answering behaviour of a study's judges, and of others from the same population."""

    def __init__(self, rng: np.random.Generator, p: Parameters, smooth: Floats | None) -> None:
        N, U, ratio = p.n_items, p.n_judges, p.taste_ratio
        sd_t = p.clarity / np.sqrt(1 + ratio**2)
        own = rng.standard_t(3, N) / np.sqrt(3.0) if p.heavy_tails else rng.standard_normal(N)
        t = sd_t * _mixed(rng, own[:, None], smooth, p.informative)[:, 0]
        everyone = _deviations(rng, p, smooth, U + N_FRESH_JUDGES)
        self.F = t + sd_t * ratio * everyone  # (judges, N)
        scale = np.exp(p.sharpness * rng.standard_normal(U + N_FRESH_JUDGES))
        self.F *= scale[:, None]
        careless = rng.random(U + N_FRESH_JUDGES) < p.careless
        self.lapse = np.where(careless, np.where(rng.random(U + N_FRESH_JUDGES) < 0.5, 1.0, 0.4), 0.0)
        self.n_judges, self.logistic, self.margin = U, p.logistic, 0.0
        if p.tie_share:
            u, (a, b) = rng.integers(U, size=20_000), rng.integers(N, size=(2, 20_000))
            gaps = (self.F[u, a] - self.F[u, b] + self._noise(rng, len(u)))[a != b]
            self.margin = float(np.quantile(np.abs(gaps), p.tie_share))

    def _noise(self, rng: np.random.Generator, n: int) -> Floats:
        return rng.logistic(scale=1 / LOGISTIC, size=n) if self.logistic else rng.standard_normal(n)

    def answer(self, rng: np.random.Generator, u: Ints, a: Ints, b: Ints) -> Floats:
        """Sample one label for each pair."""
        gap = self.F[u, a] - self.F[u, b] + self._noise(rng, len(u))
        y = np.where(gap > self.margin, 1.0, np.where(gap < -self.margin, 0.0, 0.5))
        random = rng.random(len(u)) < self.lapse[u]
        return np.where(random, rng.integers(2, size=len(u)), y)

    def expected(self, u: Ints, a: Ints, b: Ints) -> Floats:
        """E[y]; a tie counts as one half."""
        gap = self.F[u, a] - self.F[u, b]
        above, below = self._cdf(gap - self.margin), self._cdf(gap + self.margin)
        return (1 - self.lapse[u]) * 0.5 * (above + below) + 0.5 * self.lapse[u]

    def _cdf(self, z: Floats) -> Floats:
        return np.asarray(expit(LOGISTIC * z) if self.logistic else ndtr(z))

    def of_new_judges(self, a: Ints, b: Ints) -> Floats:
        """E[y] averaged over judges who are not part of the study."""
        new = range(self.n_judges, len(self.F))
        return np.mean([self.expected(np.full(len(a), u), a, b) for u in new], axis=0)


def _features(rng: np.random.Generator, p: Parameters) -> tuple[Floats | None, Floats | None]:
    """The columns that models see, and a basis (N, FOURIER) of unit-variance functions that follow them."""
    if not p.n_features:
        return None, None
    latent = min(p.n_features, int(rng.integers(2, 11)))
    Z = rng.standard_normal((p.n_items, latent))
    X = Z @ rng.standard_normal((latent, p.n_features)) / np.sqrt(latent)
    X += 0.3 * rng.standard_normal(X.shape)
    waves = rng.standard_normal((latent, FOURIER)) * rng.uniform(0.3, 1.0) / np.sqrt(latent)
    curved = np.sqrt(2.0) * np.cos(Z @ waves + rng.uniform(0, 2 * np.pi, FOURIER))
    linear = Z @ rng.standard_normal((latent, FOURIER)) / np.sqrt(latent)
    basis = np.where(rng.random(FOURIER) < rng.random(), curved, linear)
    return X, (basis - basis.mean(axis=0)) / np.maximum(basis.std(axis=0), 1e-9)


def _mixed(rng: np.random.Generator, own: Floats, smooth: Floats | None, share: float) -> Floats:
    """Functions of unit variance, (N, n): one part follows the features, the other is each item's own."""
    if smooth is None or share == 0:
        return own
    weights = rng.standard_normal((smooth.shape[1], own.shape[1]))
    follows = smooth @ weights
    follows /= np.maximum(follows.std(axis=0), 1e-9)
    return np.asarray(np.sqrt(share) * follows + np.sqrt(1 - share) * own)


def _deviations(rng: np.random.Generator, p: Parameters, smooth: Floats | None, n: int) -> Floats:
    """(n, N) personal deviations of unit variance."""
    N = p.n_items
    if p.tastes == "none":
        return np.zeros((n, N))
    if p.tastes == "full-rank":
        return _mixed(rng, rng.standard_normal((N, n)), smooth, p.informative).T
    V = _mixed(rng, rng.standard_normal((N, p.rank)), smooth, p.informative)
    if p.tastes == "clusters":
        return np.asarray(V[:, rng.integers(p.rank, size=n)].T)
    sizes = 0.7 ** np.arange(p.rank)
    return np.asarray(rng.standard_normal((n, p.rank)) * np.sqrt(sizes / sizes.sum()) @ V.T)


def _slots(rng: np.random.Generator, p: Parameters) -> Ints:
    """The judge of each label, in order of time."""
    counts = p.labels_each * np.exp(p.spread * rng.standard_normal(p.n_judges) - p.spread**2 / 2)
    counts = np.clip(np.round(counts * max(1.0, FEWEST_LABELS / counts.sum())), FEWEST_EACH, MOST_EACH)
    counts = np.maximum(1, np.floor(counts * min(1.0, MOST_LABELS / counts.sum()))).astype(np.int64)
    return rng.permutation(np.repeat(np.arange(p.n_judges), counts))


def _balanced(rng: np.random.Generator, u: Ints, group: Ints, workplace: Ints | None) -> tuple[Ints, Ints, Ints]:
    """Random pairs within groups in which all items of a group appear equally often."""
    n_groups = int(group.max()) + 1
    sizes = np.bincount(group)
    place = workplace[u] if workplace is not None else rng.choice(n_groups, size=len(u), p=sizes / sizes.sum())
    a, b = np.zeros(len(u), dtype=np.int64), np.zeros(len(u), dtype=np.int64)
    for g in np.unique(place):
        rows, items = np.flatnonzero(place == g), np.flatnonzero(group == g)
        rounds = -(-2 * len(rows) // len(items))
        deck = np.concatenate([rng.permutation(items) for _ in range(rounds)])[: 2 * len(rows)]
        a[rows], b[rows] = deck[::2], deck[1::2]
        for row in rows[a[rows] == b[rows]]:  # the two shuffles gave the same item
            b[row] = rng.choice(items[items != a[row]])
    return u, a, b


def _uniform(rng: np.random.Generator, slots: Ints, group: Ints, workplace: Ints | None) -> tuple[Ints, Ints, Ints]:
    """Sample test pairs: judges in proportion to their labels, any pair within a group."""
    return _balanced(rng, rng.choice(slots, size=N_TEST), group, workplace)


def _adaptive(
    rng: np.random.Generator, crowd: _Crowd, slots: Ints, group: Ints
) -> tuple[Labels, tuple[Ints, Ints, Ints]]:
    """Pair items with similar scores in rounds, updating scores by Elo; then return the pairs of further rounds."""
    N, score, seen = len(group), np.zeros(len(group)), np.zeros(len(group))
    parts: list[Labels] = []
    done = 0
    while done < len(slots):
        a, b = _round(rng, score, group)
        a, b = a[: len(slots) - done], b[: len(slots) - done]
        u = slots[done : done + len(a)]
        y = crowd.answer(rng, u, a, b)
        surprise = y - expit(LOGISTIC * (score[a] - score[b]))
        seen[a] += 1
        seen[b] += 1
        score[a] += np.maximum(0.1, 0.8 / (1 + 0.2 * seen[a])) * surprise
        score[b] -= np.maximum(0.1, 0.8 / (1 + 0.2 * seen[b])) * surprise
        parts.append(Labels(u, a, b, y))
        done += len(a)
    labels = Labels(*(np.concatenate([getattr(part, name) for part in parts]) for name in ("u", "a", "b", "y")))
    rounds = [_round(rng, score, group) for _ in range(min(-(-2 * N_TEST // N), 20_000))]
    a, b = (np.concatenate(side)[:N_TEST] for side in zip(*rounds, strict=True))
    return labels, (rng.choice(slots, size=len(a)), a, b)


def _round(rng: np.random.Generator, score: Floats, group: Ints) -> tuple[Ints, Ints]:
    """Pair neighbours in a noisy order of scores, within groups."""
    order = np.lexsort((score + 0.3 * rng.standard_normal(len(score)), group))
    order = order[rng.integers(2) if len(order) > 2 else 0 :]
    a, b = order[0 : len(order) // 2 * 2 : 2], order[1::2]
    swap, order = rng.random(len(a)) < 0.5, rng.permutation(len(a))
    a, b = np.where(swap, b, a)[order], np.where(swap, a, b)[order]
    same = group[a] == group[b]
    return a[same], b[same]
