"""The demo's arguments and its simulated crowd: three opinion groups with a known ground truth. Without Django."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from modelling.crowdgppl import PairwiseLabels

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]

ARGUMENTS = Path(__file__).with_name("demo_arguments.csv")
TRUTH = Path(__file__).with_name("demo_truth.csv")
AXES = ("evidence_vs_story", "common_vs_individual", "long_vs_short")
# The weight of each axis for each opinion group. The columns sum to zero, so that with groups of equal size the mean
# utility of an argument over the crowd is its quality.
OPINIONS = {
    "weighs the evidence": (1.4, 0.1, 0.5),
    "listens to people": (-1.2, 0.9, 0.5),
    "likes it short and free": (-0.2, -1.0, -1.0),
}
WORKERS_PER_OPINION = 24
BRIEF_WORKERS, BRIEF_COUNT = 8, 8  # workers who leave early
BUSY_WORKERS, BUSY_COUNT = 6, 80
USUAL_COUNT = (36, 45)  # inclusive
OWN_TASTE_SD = 0.2  # of a worker's weight on an axis around the group's weight
RESIDUAL_SD = 0.3  # of the part of a worker's utility for an argument that is unrelated to the axes
TIE_MARGIN = 0.17  # gives about 6% ties
WORDS_PER_SECOND = 4.0
PAUSE_SECONDS = 2.5  # per answer, in addition to reading
PACE_SD = 0.35  # of the logarithm of the response time
DAYS = 14  # over which the answers are spread
DAYTIME = (8 * 3600, 21 * 3600)  # seconds after midnight at which workers begin


@dataclass(frozen=True)
class Argument:
    """One text of the demo; `group` is the debate and its side, `style` the kind of argument."""

    key: str
    text: str
    group: str
    style: str


@dataclass(frozen=True)
class Truth:
    """The texts' ground truth: quality (N,), and position (N, 3) on the axes on which people differ."""

    quality: Floats
    positions: Floats


@dataclass(frozen=True)
class Question:
    """A question for workers, with the probabilities of its answers in each opinion group."""

    name: str
    label: str
    choices: tuple[str, ...]
    probabilities: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class DemoCrowd:
    """The workers, their labels, and their utilities (N, U) with the consensus (N,)."""

    names: tuple[str, ...]
    opinions: Ints  # (U,) index into OPINIONS
    traits: tuple[dict[str, str], ...]
    labels: PairwiseLabels  # in chronological order
    response_ms: Ints  # (P,)
    seconds: Floats  # (P,) since the midnight before the first day
    consensus: Floats
    utilities: Floats


QUESTIONS = (
    Question(
        name="age",
        label="How old are you?",
        choices=("18-29", "30-44", "45-64", "65 or older"),
        probabilities=((0.2, 0.45, 0.25, 0.1), (0.1, 0.15, 0.35, 0.4), (0.6, 0.25, 0.1, 0.05)),
    ),
    Question(
        name="region",
        label="Where do you live?",
        choices=("city", "suburb", "small town", "countryside"),
        probabilities=((0.5, 0.3, 0.1, 0.1), (0.1, 0.15, 0.4, 0.35), (0.35, 0.3, 0.2, 0.15)),
    ),
    Question(
        name="travel",
        label="How do you usually get to work or to the shops?",
        choices=("on foot or by bicycle", "by bus or train", "by car", "I mostly stay at home"),
        probabilities=((0.3, 0.45, 0.15, 0.1), (0.35, 0.15, 0.2, 0.3), (0.1, 0.15, 0.65, 0.1)),
    ),
)


def read_arguments() -> tuple[Argument, ...]:
    with ARGUMENTS.open(encoding="utf-8", newline="") as file:
        return tuple(Argument(**row) for row in csv.DictReader(file))


def read_truth(arguments: Sequence[Argument]) -> Truth:
    """The ground truth of these arguments, in the same order."""
    with TRUTH.open(encoding="utf-8", newline="") as file:
        rows = {row["key"]: row for row in csv.DictReader(file)}
    quality = np.array([float(rows[argument.key]["quality"]) for argument in arguments])
    positions = np.array([[float(rows[argument.key][axis]) for axis in AXES] for argument in arguments])
    return Truth(quality=quality, positions=positions)


def draw_demo_crowd(rng: np.random.Generator, arguments: Sequence[Argument], truth: Truth) -> DemoCrowd:
    """Sample a crowd with its answers."""
    opinions = rng.permutation(np.repeat(np.arange(len(OPINIONS)), WORKERS_PER_OPINION))
    utilities = _draw_utilities(rng, truth, opinions)
    labels = _draw_labels(rng, arguments, utilities, _draw_counts(rng, len(opinions)))
    traits = tuple(_draw_traits(rng, int(opinion)) for opinion in opinions)
    response_ms = _draw_response_ms(rng, arguments, labels)
    seconds = _draw_seconds(rng, labels.u, response_ms)
    order = np.argsort(seconds)
    return DemoCrowd(
        names=tuple(f"simulated-{number:02d}" for number in range(1, len(opinions) + 1)),
        opinions=opinions,
        traits=traits,
        labels=labels.take(order),
        response_ms=response_ms[order],
        seconds=seconds[order],
        consensus=truth.quality,
        utilities=utilities,
    )


def _draw_utilities(rng: np.random.Generator, truth: Truth, opinions: Ints) -> Floats:
    """Sample utilities (N, U): quality, plus the group's taste, plus individual variation."""
    n_items, n_workers = len(truth.quality), len(opinions)
    group_tastes = np.array(list(OPINIONS.values()))
    tastes = group_tastes[opinions] + OWN_TASTE_SD * rng.standard_normal((n_workers, len(AXES)))
    residual = RESIDUAL_SD * rng.standard_normal((n_items, n_workers))
    return truth.quality[:, None] + truth.positions @ tastes.T + residual


def _draw_counts(rng: np.random.Generator, n_workers: int) -> Ints:
    """Sample the number of pairs that each worker judges; a few workers judge very few or very many."""
    n_usual = n_workers - BRIEF_WORKERS - BUSY_WORKERS
    usual = rng.integers(*USUAL_COUNT, size=n_usual, endpoint=True)
    return rng.permutation(np.r_[[BRIEF_COUNT] * BRIEF_WORKERS, [BUSY_COUNT] * BUSY_WORKERS, usual])


def _draw_labels(
    rng: np.random.Generator, arguments: Sequence[Argument], utilities: Floats, counts: Ints
) -> PairwiseLabels:
    """Sample counts[u] labels of each worker u: distinct pairs within a group, in random order and orientation."""
    pairs = _pairs_within_groups(arguments)
    u = np.repeat(np.arange(len(counts)), counts)
    drawn = np.concatenate([rng.choice(len(pairs), size=count, replace=False) for count in counts])
    a, b = rng.permuted(pairs[drawn], axis=1).T
    difference = utilities[a, u] - utilities[b, u] + rng.standard_normal(len(u))  # eq:plphi
    y = np.where(np.abs(difference) <= TIE_MARGIN, 0.5, (difference > 0).astype(np.float64))
    order = rng.permutation(len(u))
    return PairwiseLabels(u=u[order], a=a[order], b=b[order], y=y[order])


def _pairs_within_groups(arguments: Sequence[Argument]) -> Ints:
    """Every pair of two arguments of one group, (n_pairs, 2)."""
    _, group = np.unique([argument.group for argument in arguments], return_inverse=True)
    first, second = np.triu_indices(len(arguments), k=1)
    same_group = group[first] == group[second]
    return np.stack([first[same_group], second[same_group]], axis=1)


def _draw_traits(rng: np.random.Generator, opinion: int) -> dict[str, str]:
    """Sample one worker's answers to the questionnaire, which correlate with the opinion group."""
    return {
        question.name: question.choices[rng.choice(len(question.choices), p=question.probabilities[opinion])]
        for question in QUESTIONS
    }


def _draw_response_ms(rng: np.random.Generator, arguments: Sequence[Argument], labels: PairwiseLabels) -> Ints:
    """Sample response times that depend on the length of the texts."""
    words = np.array([len(argument.text.split()) for argument in arguments])
    seconds = PAUSE_SECONDS + (words[labels.a] + words[labels.b]) / WORDS_PER_SECOND
    pace = np.exp(PACE_SD * rng.standard_normal(len(labels)))
    milliseconds: Ints = np.round(1000 * seconds * pace).astype(np.int64)
    return milliseconds


def _draw_seconds(rng: np.random.Generator, u: Ints, response_ms: Ints) -> Floats:
    """Sample when each answer was given: each worker judges in one sitting, on one of the days."""
    n_workers = int(u.max()) + 1
    begin = 86_400 * rng.integers(DAYS, size=n_workers) + rng.uniform(*DAYTIME, size=n_workers)
    order = np.argsort(u, kind="stable")
    elapsed = np.cumsum(response_ms[order] / 1000)
    before = np.r_[0.0, elapsed][np.searchsorted(u[order], np.arange(n_workers))]
    seconds = np.empty(len(u))
    seconds[order] = begin[u[order]] + elapsed - before[u[order]]
    return seconds
