"""The demo's arguments and a crowd that never was: three opinion groups with a known truth. No Django here."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from modelling.simulation import Floats, Ints, SimulatedLabels

ARGUMENTS = Path(__file__).with_name("arguments.csv")
TRUTH = Path(__file__).with_name("truth.csv")
AXES = ("evidence_vs_story", "common_vs_individual", "long_vs_short")
# What an opinion group adds to the quality of an argument for each unit on the axes above. The columns add up to zero,
# so that with groups of one size the quality of an argument is also what the whole crowd thinks of it on average.
OPINIONS = {
    "weighs the evidence": (1.4, 0.1, 0.5),
    "listens to people": (-1.2, 0.9, 0.5),
    "likes it short and free": (-0.2, -1.0, -1.0),
}
WORKERS_PER_OPINION = 24
BRIEF_WORKERS, BRIEF_COUNT = 8, 8  # came, looked and left
BUSY_WORKERS, BUSY_COUNT = 6, 80
USUAL_COUNT = (36, 45)  # both included
OWN_TASTE_SD = 0.2  # of a worker on each axis, round the group's taste
OWN_REST_SD = 0.3  # of a worker for each argument, for no reason we know of
TIE_MARGIN = 0.17  # makes about 6 % of the answers ties
WORDS_PER_SECOND = 4.0
PAUSE_SECONDS = 2.5  # to look, choose and press
PACE_SD = 0.35  # of the logarithm of the response time


@dataclass(frozen=True)
class Argument:
    """One text of the demo; group is the debate and its side, style what kind of argument it is."""

    key: str
    text: str
    group: str
    style: str


@dataclass(frozen=True)
class Truth:
    """What the texts are worth: quality (N,) to everybody, leanings (N, 3) on the axes where people differ."""

    quality: Floats
    leanings: Floats


@dataclass(frozen=True)
class Question:
    """A question to workers, and for each opinion group the odds of its answers."""

    name: str
    label: str
    choices: tuple[str, ...]
    odds: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class DemoCrowd:
    """Who took part, what they said, and what they think: utilities (N, U) with the consensus (N,) as their core."""

    names: tuple[str, ...]
    opinions: Ints  # (U,) index into OPINIONS
    traits: tuple[dict[str, str], ...]
    labels: SimulatedLabels  # in the order in which they were given
    response_ms: Ints  # (P,)
    consensus: Floats
    utilities: Floats


QUESTIONS = (
    Question(
        name="age",
        label="How old are you?",
        choices=("18-29", "30-44", "45-64", "65 or older"),
        odds=((0.2, 0.45, 0.25, 0.1), (0.1, 0.15, 0.35, 0.4), (0.6, 0.25, 0.1, 0.05)),
    ),
    Question(
        name="region",
        label="Where do you live?",
        choices=("city", "suburb", "small town", "countryside"),
        odds=((0.5, 0.3, 0.1, 0.1), (0.1, 0.15, 0.4, 0.35), (0.35, 0.3, 0.2, 0.15)),
    ),
    Question(
        name="travel",
        label="How do you usually get to work or to the shops?",
        choices=("on foot or by bicycle", "by bus or train", "by car", "I mostly stay at home"),
        odds=((0.3, 0.45, 0.15, 0.1), (0.35, 0.15, 0.2, 0.3), (0.1, 0.15, 0.65, 0.1)),
    ),
)


def read_arguments() -> tuple[Argument, ...]:
    """The texts in the order of their file."""
    with ARGUMENTS.open(encoding="utf-8", newline="") as file:
        return tuple(Argument(**row) for row in csv.DictReader(file))


def read_truth(arguments: Sequence[Argument]) -> Truth:
    """What only the simulation knows about these arguments, in their order."""
    with TRUTH.open(encoding="utf-8", newline="") as file:
        rows = {row["key"]: row for row in csv.DictReader(file)}
    quality = np.array([float(rows[argument.key]["quality"]) for argument in arguments])
    leanings = np.array([[float(rows[argument.key][axis]) for axis in AXES] for argument in arguments])
    return Truth(quality=quality, leanings=leanings)


def draw_demo_crowd(rng: np.random.Generator, arguments: Sequence[Argument], truth: Truth) -> DemoCrowd:
    """A crowd with its answers, the same for the same state of rng."""
    opinions = rng.permutation(np.repeat(np.arange(len(OPINIONS)), WORKERS_PER_OPINION))
    utilities = _draw_utilities(rng, truth, opinions)
    labels = _draw_labels(rng, arguments, utilities, _draw_counts(rng, len(opinions)))
    return DemoCrowd(
        names=tuple(f"simulated-{number:02d}" for number in range(1, len(opinions) + 1)),
        opinions=opinions,
        traits=tuple(_draw_traits(rng, int(opinion)) for opinion in opinions),
        labels=labels,
        response_ms=_draw_response_ms(rng, arguments, labels),
        consensus=truth.quality,
        utilities=utilities,
    )


def _draw_utilities(rng: np.random.Generator, truth: Truth, opinions: Ints) -> Floats:
    """Quality, plus the taste of the group, plus a little of everybody's own, (N, U)."""
    n_items, n_workers = len(truth.quality), len(opinions)
    group_tastes = np.array(list(OPINIONS.values()))
    tastes = group_tastes[opinions] + OWN_TASTE_SD * rng.standard_normal((n_workers, len(AXES)))
    own_rest = OWN_REST_SD * rng.standard_normal((n_items, n_workers))
    return truth.quality[:, None] + truth.leanings @ tastes.T + own_rest


def _draw_counts(rng: np.random.Generator, n_workers: int) -> Ints:
    """How many pairs each worker judges: a few very few, a few very many."""
    n_usual = n_workers - BRIEF_WORKERS - BUSY_WORKERS
    usual = rng.integers(*USUAL_COUNT, size=n_usual, endpoint=True)
    return rng.permutation(np.r_[[BRIEF_COUNT] * BRIEF_WORKERS, [BUSY_COUNT] * BUSY_WORKERS, usual])


def _draw_labels(
    rng: np.random.Generator, arguments: Sequence[Argument], utilities: Floats, counts: Ints
) -> SimulatedLabels:
    """counts[u] answers of each worker u: pairs within a group, none twice, in random order and on random sides."""
    pairs = _pairs_within_groups(arguments)
    u = np.repeat(np.arange(len(counts)), counts)
    drawn = np.concatenate([rng.choice(len(pairs), size=count, replace=False) for count in counts])
    a, b = rng.permuted(pairs[drawn], axis=1).T
    felt = utilities[a, u] - utilities[b, u] + rng.standard_normal(len(u))  # eq:plphi
    y = np.where(np.abs(felt) <= TIE_MARGIN, 0.5, (felt > 0).astype(np.float64))
    order = rng.permutation(len(u))
    return SimulatedLabels(u=u[order], a=a[order], b=b[order], y=y[order])


def _pairs_within_groups(arguments: Sequence[Argument]) -> Ints:
    """Every pair of two arguments of one group, (n_pairs, 2)."""
    _, group = np.unique([argument.group for argument in arguments], return_inverse=True)
    first, second = np.triu_indices(len(arguments), k=1)
    together = group[first] == group[second]
    return np.stack([first[together], second[together]], axis=1)


def _draw_traits(rng: np.random.Generator, opinion: int) -> dict[str, str]:
    """One worker's answers to the questionnaire, which hint at the opinion group without giving it away."""
    return {
        question.name: question.choices[rng.choice(len(question.choices), p=question.odds[opinion])]
        for question in QUESTIONS
    }


def _draw_response_ms(rng: np.random.Generator, arguments: Sequence[Argument], labels: SimulatedLabels) -> Ints:
    """Long texts take longer to read, and people are not clocks."""
    words = np.array([len(argument.text.split()) for argument in arguments])
    seconds = PAUSE_SECONDS + (words[labels.a] + words[labels.b]) / WORDS_PER_SECOND
    pace = np.exp(PACE_SD * rng.standard_normal(len(labels)))
    milliseconds: Ints = np.round(1000 * seconds * pace).astype(np.int64)
    return milliseconds
