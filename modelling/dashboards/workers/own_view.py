"""What a worker sees about their own judgements after finishing: nothing about other workers or items' scores.

It is not shown earlier, because knowing what the crowd prefers would influence the worker's judgements. A preference
is shown only if both the model and the worker's own choices support it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest

from annotation.models import Item, Judgement, Worker
from modelling.dashboards.workers.worker import WorkerAnswers
from modelling.features.keywords import EndKeywords, extract_words, find_keywords
from modelling.models import ModelSnapshot
from modelling.training.components.axes import ComponentAxes, load_component_axes, load_word_table

MIN_DECIDED = 10  # answers that prefer one of the two texts
MIN_OTHERS = 5  # other workers in the version
MIN_Z = 2.0  # standard deviations from 0, before a preference is shown
MAX_P = 0.05  # of a binomial test on the worker's own choices
MAX_WORDS = 5
MIN_WORDS = 2
LENGTH_RATIO = 1.5  # of median word counts, before a preference for length is shown


@dataclass(frozen=True)
class Leaning:
    """What the worker prefers more than others do: texts with these words, and longer or shorter texts."""

    words: list[str]
    length: str  # "longer", "shorter" or empty


@dataclass(frozen=True)
class OwnView:
    judgements: int
    decided: int
    agreed: int
    leanings: list[Leaning]


@dataclass(frozen=True)
class OwnChoices:
    """The texts that a worker preferred, each with the one they rejected, and the words of every text."""

    pairs: list[tuple[int, int]]
    words: Mapping[int, set[str]]
    lengths: Mapping[int, int]

    @classmethod
    def load(cls, answers: WorkerAnswers) -> "OwnChoices":
        texts = dict(Item.objects.filter(pk__in=answers.item_ids).values_list("pk", "text"))
        decided = [row for row in answers.rows if row[3] != Judgement.Choice.TIE]
        pairs = [(lo, hi) if choice == Judgement.Choice.LO else (hi, lo) for _, lo, hi, choice, _ in decided]
        words = {pk: extract_words(text) for pk, text in texts.items()}
        return cls(pairs, words, {pk: len(text.split()) for pk, text in texts.items()})

    @property
    def read_words(self) -> set[str]:
        return set().union(*self.words.values())

    def support(self, value: Callable[[int], float]) -> bool:
        """Whether the texts with higher values were chosen more often than chance explains."""
        chosen_higher = [
            value(chosen) > value(rejected) for chosen, rejected in self.pairs if value(chosen) != value(rejected)
        ]
        if not chosen_higher:
            return False
        return bool(binomtest(sum(chosen_higher), len(chosen_higher), alternative="greater").pvalue <= MAX_P)


def own_view(snapshot: ModelSnapshot, worker: Worker) -> OwnView | None:
    """A worker's own view; None while the version lacks their last answer, enough decided ones, or other workers."""
    last = Judgement.objects.filter(worker=worker).order_by("-sequence").values_list("sequence", flat=True).first()
    if last is None or last > snapshot.last_sequence:
        return None
    axes = load_component_axes(snapshot)
    user = axes.fitted.worker_index.get(worker.pk)
    if user is None or len(axes.fitted.worker_index) <= MIN_OTHERS:
        return None
    answers = WorkerAnswers.load(snapshot, worker, axes.fitted, user)
    summary = answers.summary
    if summary is None or summary.decided < MIN_DECIDED:
        return None
    found = leanings(snapshot, axes, user, OwnChoices.load(answers))
    return OwnView(summary.judgements, summary.decided, summary.agreed, found)


def leanings(snapshot: ModelSnapshot, axes: ComponentAxes, user: int, choices: OwnChoices) -> list[Leaning]:
    """The components on which the worker is clearly to one side, in words from texts they have read."""
    if not axes.axes:
        return []
    weights, covariance = axes.weights_of(user)
    sds = np.sqrt(np.diagonal(covariance)[axes.strongest])
    table = load_word_table(snapshot, axes.fitted.item_ids)
    found = []
    for row, sd in zip(axes.strongest, sds, strict=True):
        weight = weights[row]
        if abs(weight) >= MIN_Z * sd:
            found.append(_leaning(find_keywords(table, _oriented(weight, axes.items[row])), choices))
    return [each for each in found if each.words or each.length]


def _oriented(weight: float, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Flip the values if necessary, so that high means preferred by the worker."""
    return values if weight > 0 else -values


def _leaning(ends: EndKeywords, choices: OwnChoices) -> Leaning:
    words = [word for word in ends.high if word in choices.read_words][:MAX_WORDS]
    if len(words) < MIN_WORDS or not choices.support(lambda pk: len(choices.words[pk].intersection(words))):
        words = []
    length = ""
    if ends.high_length > LENGTH_RATIO * ends.low_length and choices.support(lambda pk: choices.lengths[pk]):
        length = "longer"
    elif ends.low_length > LENGTH_RATIO * ends.high_length and choices.support(lambda pk: -choices.lengths[pk]):
        length = "shorter"
    return Leaning(words, length)
