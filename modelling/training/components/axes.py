"""The components of a version: numbered, signed and named, with the words and items at both ends of each."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from django.utils.translation import gettext as _
from numpy.typing import NDArray

from annotation.models import Item
from modelling.features.keywords import WordTable, build_word_table, find_keywords
from modelling.models import ModelSnapshot
from modelling.training.components.numbering import get_component_names, get_numbering
from modelling.training.snapshots import FittedModel, load_fitted_model

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

ITEMS_PER_END = 3
WORDS_PER_TITLE = 2  # from each end
# `prior_variance` (empty), `energy` (the variance) and `in_use` (1) are columns of earlier releases.
COLUMNS = [
    "component", "name", "variance", "prior_variance", "energy", "share_of_largest", "in_use",
    "words_high", "words_low", "items_high", "items_low", "version", "as_of_seq",
]  # fmt: skip


@dataclass(frozen=True)
class ComponentAxis:
    """One component: `variance` is the paper's 1/(s_v s_w), `share` its percentage of the largest."""

    number: int
    name: str
    variance: float
    share: float
    words_high: tuple[str, ...] = ()
    words_low: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """The researcher's name for it or, without one, its number."""
        return self.name or _("Component %(number)d") % {"number": self.number}

    @property
    def title(self) -> str:
        """The label and, if it is not a name, the words that distinguish the two ends."""
        return self.name or ": ".join(filter(None, [self.label, self.words]))

    @property
    def words(self) -> str:
        ends = [", ".join(words[:WORDS_PER_TITLE]) for words in (self.words_high, self.words_low)]
        return " / ".join(filter(None, ends))

    @property
    def axis_title(self) -> str:
        """The title of a figure's axis: the name or, without one, the number and a line with the words of both ends."""
        if self.name:
            return self.name
        low, high = (", ".join(words[:WORDS_PER_TITLE]) for words in (self.words_low, self.words_high))
        words = "   ".join(filter(None, [low and f"← {low}", high and f"{high} →"]))
        return "\n".join(filter(None, [self.label, words]))


@dataclass(frozen=True, eq=False)
class ComponentAxes:
    """The components that the judgements support, in order of number; rows of `items` and `users` match `axes`."""

    fitted: FittedModel
    axes: list[ComponentAxis]
    places: Ints  # the estimator's index of each axis
    signs: Floats

    @cached_property
    def items(self) -> Floats:
        """Each component at the items, (C, N)."""
        return self.signs[:, None] * self.fitted.model.item_components_[self.places]

    @cached_property
    def _weights(self) -> tuple[Floats, Floats]:
        return self._arrange(*self.fitted.weights)

    def _arrange(self, mean: Floats, covariance: Floats) -> tuple[Floats, Floats]:
        """Put weights into the axes' order and apply their signs."""
        signs = np.outer(self.signs, self.signs)
        return self.signs[:, None] * mean[self.places], signs * covariance[:, self.places][:, :, self.places]

    def weights_of(self, user: int) -> tuple[Floats, Floats]:
        """Mean (C,) and covariance (C, C) of one worker's weights, from this worker's labels alone."""
        mean, covariance = self._arrange(*self.fitted.model.predict_weights([user]))
        return mean[:, 0], covariance[0]

    @property
    def users(self) -> Floats:
        """The workers' mean weights on each component, (C, U)."""
        return self._weights[0]

    @property
    def strongest(self) -> list[int]:
        """Row indices of all components, in order of decreasing variance."""
        return sorted(range(len(self.axes)), key=lambda row: -self.axes[row].variance)

    def contributions(self, items: Ints, user: int) -> Floats:
        """Each component's part (C, items) of this worker's scores for these items, relative to all ranked items."""
        at = slice(None) if self.fitted.centre is None else self.fitted.centre
        relative = self.items[:, items] - self.items[:, at].mean(axis=1, keepdims=True)
        return np.asarray(relative * self.weights_of(user)[0][:, None])

    def user_covariances(self, rows: Sequence[int]) -> Floats:
        """The posterior covariance (U, k, k) of the workers' weights on these components."""
        return np.asarray(self._weights[1][:, rows][:, :, rows])


def load_component_axes(snapshot: ModelSnapshot) -> ComponentAxes:
    fitted, numbering = load_fitted_model(snapshot), get_numbering(snapshot)
    names = get_component_names(snapshot.project)
    model, places = fitted.model, np.argsort(numbering.numbers, kind="stable")
    variances = model.component_variances_
    largest = float(variances.max(initial=0.0))
    words = _component_words(snapshot, snapshot.checksum)
    axes = [
        ComponentAxis(
            number=(number := int(numbering.numbers[c])),
            name=names.get(number, ""),
            variance=float(variances[c]),
            share=100 * float(variances[c]) / largest,
            words_high=words[c][int(numbering.signs[c] < 0)],
            words_low=words[c][int(numbering.signs[c] > 0)],
        )
        for c in places
    ]
    return ComponentAxes(fitted, axes, places, numbering.signs[places])


@dataclass(frozen=True)
class ItemValue:
    item: Item
    value: float


@dataclass(frozen=True)
class ItemEnd:
    """One end of a component: keywords and the most extreme items, each with its value."""

    words: list[str]
    length: float  # median number of words in the quarter of the texts at this end
    items: list[ItemValue]


def find_item_ends(snapshot: ModelSnapshot, axes: ComponentAxes) -> dict[int, tuple[ItemEnd, ItemEnd]]:
    """The high and the low end of each component, by row, with a fixed number of queries."""
    if not axes.axes:
        return {}
    ids, table = axes.fitted.item_ids, load_word_table(snapshot, axes.fitted.item_ids)
    active = Item.objects.filter(project=snapshot.project, active=True).values_list("pk", flat=True)
    shown = np.flatnonzero(np.isin(ids, np.array(list(active), dtype=np.int64)))
    places = {row: extremes(axes.items[row], shown, ITEMS_PER_END) for row in axes.strongest}
    wanted = [int(ids[place]) for ends in places.values() for end in ends for place in end]
    items = Item.objects.select_related("project").in_bulk(wanted)
    found = {}
    for row, ends in places.items():
        values = axes.items[row]
        high, low = ([ItemValue(items[int(ids[p])], float(values[p])) for p in end] for end in ends)
        words = find_keywords(table, values)
        found[row] = (ItemEnd(words.high, words.high_length, high), ItemEnd(words.low, words.low_length, low))
    return found


def extremes(values: Floats, among: Ints, count: int) -> tuple[Ints, Ints]:
    """Positions of the largest values, largest first, and of the smallest, smallest first; they never overlap."""
    order = among[np.argsort(values[among], kind="stable")]
    each = min(count, len(order) // 2)
    return order[::-1][:each], order[:each]


def load_word_table(snapshot: ModelSnapshot, item_ids: Ints) -> WordTable:
    """The words of a version's texts, cached per version."""
    return _word_table(snapshot.project_id, snapshot.checksum, tuple(item_ids.tolist()))


@lru_cache(maxsize=8)
def _component_words(snapshot: ModelSnapshot, checksum: str) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """The keywords of each component's high and low end, in the estimator's order and with its signs."""
    fitted = load_fitted_model(snapshot)
    if not len(fitted.model.component_variances_):
        return []
    table = load_word_table(snapshot, fitted.item_ids)
    found = [find_keywords(table, values) for values in fitted.model.item_components_]
    return [(tuple(each.high), tuple(each.low)) for each in found]


@lru_cache(maxsize=8)
def _word_table(project_id: int, checksum: str, item_ids: tuple[int, ...]) -> WordTable:
    texts = dict(Item.objects.filter(project=project_id).values_list("pk", "text"))
    return build_word_table([texts.get(pk, "") for pk in item_ids])


def component_rows(snapshot: ModelSnapshot) -> Iterator[list[Any]]:
    """All components by number, as rows of `COLUMNS`."""
    axes = load_component_axes(snapshot)
    found = find_item_ends(snapshot, axes)
    for row, each in enumerate(axes.axes):
        words = [" ".join(end.words) for end in found[row]]
        items = [" ".join(there.item.key for there in end.items) for end in found[row]]
        facts = [each.number, each.name, each.variance, None, each.variance, each.share / 100, 1]
        yield [*facts, *words, *items, snapshot.number, snapshot.last_sequence]
