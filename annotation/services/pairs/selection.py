"""Pair selection: which items can be paired, and which pair a worker gets next.

The next pair is a planned repeat, a model suggestion, or a random pair: one of the least judged pairs if the study has
no suggestions, otherwise any pair, because how often an item is suggested depends on the answers. Each selection
records its policy and its propensity (the probability with which the policy chose the pair). For variety, items that
the worker has just seen are avoided ("rest"), as long as the study has enough others.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from random import Random
from typing import Any

from django.db import transaction
from django.db.models import Count

from annotation.models import Assignment, Item, Judgement, Project, Suggestion, User, Worker
from annotation.models.arms import Design
from annotation.models.projects import MAX_REDUNDANCY
from annotation.services.projects import audit
from annotation.storage import queries
from annotation.storage.queries import IssuedPair

QUICK_TRIES = 3
SUGGESTION_TRIES = 1000  # suggestions searched for a worker's next pair
SUGGESTION_BATCH = 500  # rows per INSERT
SAMPLED_ITEMS = 100  # items from which a preview takes its pairs
REPEAT_AFTER = 5  # judgements between a pair and its planned repeat
# An item appears in at most MAX_APPEARANCES of VARIETY_WINDOW consecutive pairs of a worker.
VARIETY_WINDOW = 10
MAX_APPEARANCES = 3

# Policies, as stored with each assignment.
SUGGESTED, RANDOM, LEAST_JUDGED = "suggested", "random", "least-judged"

Selection = dict[str, Any]  # the Assignment fields that pair selection sets


@dataclass(frozen=True)
class Candidate:
    """An active item, how often it was issued or judged, and the items it may not be paired with."""

    item: int
    group: str
    load: int
    excluded: frozenset[int]


@dataclass(frozen=True)
class Pair:
    lo: int
    hi: int
    propensity: float


class PairSelector:
    """Select pairs for one worker. Items are read once, issued pairs for one item at a time.

    A selected pair counts as issued, so that the caller can store several selections at once.
    """

    def __init__(self, worker: Worker, rng: Random) -> None:
        self.worker, self.project, self.rng = worker, worker.project, rng
        self.design = worker.design
        within = self.design.pairs == Project.Pairs.WITHIN_GROUP
        items = _items_with_loads(self.design)
        self.group = {pk: group if within else "" for pk, group, _load in items}
        self.load = {pk: load for pk, _group, load in items}
        self.has_suggestions = queries.has_suggestions(self.project)
        self.used_suggestions: list[int] = []
        self.recent = queries.latest_pairs(worker, VARIETY_WINDOW - 1)
        self.imported = queries.imported_pairs(worker)
        self.selected: list[IssuedPair] = []
        self.exhausted = False  # whether an exhaustive search found no pair
        self.members: dict[str, list[int]] = {}
        for pk, group in self.group.items():
            self.members.setdefault(group, []).append(pk)

    def select(self) -> Selection | None:
        """Select the next pair and record why; None when no pair is left. Nothing is stored."""
        selection = self._select()
        if selection is not None:
            pair = (selection["item_lo_id"], selection["item_hi_id"])
            self.selected.append((*pair, selection["slot"], self.worker.pk))
            self.recent = [pair, *self.recent][: VARIETY_WINDOW - 1]
            for item in pair:
                self.load[item] += 1
        return selection

    def _select(self) -> Selection | None:
        if self._with_probability(self.project.repeat_share) and (repeat := self._repeat()):
            return repeat
        if self.exhausted:
            return None
        if self.has_suggestions:
            by_chance = self._with_probability(self.design.random_share)
            selection = (None if by_chance else self._suggested()) or self._by_chance(RANDOM)
            if selection is not None:
                return selection
        selection = self._by_chance(LEAST_JUDGED)
        self.exhausted = selection is None
        return selection

    def _by_chance(self, policy: str) -> Selection | None:
        pair = self._least_judged_pair() if policy == LEAST_JUDGED else self._sample_pair(least_judged=False)
        if pair is None:
            return None
        return {**self._in_free_slot(pair.lo, pair.hi), "policy": policy, "propensity": pair.propensity}

    def count_free_slots(self) -> int:
        """Estimate how many more times pairs can be issued to workers with this design."""
        n_pairs = sum(len(members) * (len(members) - 1) // 2 for members in self.members.values())
        return n_pairs * self.project.redundancy - sum(self.load.values()) // 2

    def _resting(self) -> list[frozenset[int]]:
        """Sets of recently seen items to avoid, in the order to try: by the full variety rule, a weaker one, and none.

        A set that would leave no group with two items is left out: the study is too small for it.
        """
        last = frozenset(item for pair in self.recent[:1] for item in pair)
        counts = Counter(item for pair in self.recent for item in pair)
        frequent = {item for item, count in counts.items() if count >= MAX_APPEARANCES}
        steps = dict.fromkeys((last | frequent, last))
        return [*filter(self._leaves_a_pair, steps), frozenset()]

    def _leaves_a_pair(self, resting: AbstractSet[int]) -> bool:
        n_resting = Counter(self.group[item] for item in resting if item in self.group)
        return any(len(members) - n_resting[group] >= 2 for group, members in self.members.items())

    def _with_probability(self, percent: int) -> bool:
        return percent > 0 and self.rng.random() < percent / 100

    def _in_free_slot(self, lo: int, hi: int) -> Selection:
        """Place the pair in its lowest free slot, with a random item on the left."""
        issued = [*queries.issued_pair(lo, hi), *self.selected]
        slots = {slot for one, other, slot, _worker in issued if (one, other) == (lo, hi)}
        slot = next((slot for slot in self.design.slots if slot not in slots), None)
        return {"item_lo_id": lo, "item_hi_id": hi, "slot": slot, "lo_is_left": self.rng.random() < 0.5}

    def _repeat(self) -> Selection | None:
        """A pair that this worker judged earlier and has not repeated yet, with its sides swapped."""
        judged = Judgement.objects.filter(worker=self.worker, retraction=None, assignment__purpose="normal")
        columns = ("item_lo", "item_hi", "lo_was_left", "round")
        earlier = list(judged.order_by("-sequence").values_list(*columns)[REPEAT_AFTER:])
        repeated = set(self.worker.assignments.filter(purpose="repeat").values_list("item_lo", "item_hi"))
        able = [row for row in earlier if row[:2] not in repeated and {*row[:2]} <= self.load.keys()]
        resting = self._resting()[0]
        able = [row for row in able if not self._is_selected(*row[:2]) and not resting.intersection(row[:2])]
        if not able:
            return None
        lo, hi, lo_was_left, round_ = self.rng.choice(able)
        why = {"policy": "repeat", "propensity": 1 / len(able), "purpose": Assignment.Purpose.REPEAT, "slot": None}
        return {"item_lo_id": lo, "item_hi_id": hi, "lo_is_left": not lo_was_left, "round": round_ + 1, **why}

    @cached_property
    def _suggestions(self) -> list[tuple[int, int, int]]:
        """Primary key and items of the suggestions that fit the worker's design."""
        rows = queries.suggested_pairs(self.worker, SUGGESTION_TRIES)
        return [row for row in rows if row[1] in self.group and self.group[row[1]] == self.group.get(row[2])]

    def _suggested(self) -> Selection | None:
        """The first suggestion with a free slot and without a resting item."""
        resting, tried = self._resting()[0], 0
        for pk, lo, hi in self._suggestions:
            if lo in resting or hi in resting or self._is_selected(lo, hi) or (lo, hi) in self.imported:
                continue
            selection = self._in_free_slot(lo, hi)
            if selection["slot"] is not None:
                self.used_suggestions.append(pk)
                return {**selection, "policy": SUGGESTED, "propensity": None}
            tried += 1
            if tried == QUICK_TRIES:
                break
        return None

    def _is_selected(self, lo: int, hi: int) -> bool:
        return any((lo, hi) == pair[:2] for pair in self.selected)

    def _least_judged_pair(self) -> Pair | None:
        """Sample from the least judged items; where those have no partner left, search every pair."""
        sampled = self._sample_pair(least_judged=True)
        if sampled is not None:
            return sampled
        candidates, steps = self._candidates(), self._resting()
        found = (search_pair([c for c in candidates if c.item not in resting], self.rng) for resting in steps)
        return next((pair for pair in found if pair is not None), None)

    def _sample_pair(self, *, least_judged: bool) -> Pair | None:
        """A random pair, from all items or from the least judged; None if a few tries found none."""
        resting = self._resting()[0]

        def choose_from(items: list[int]) -> list[int]:
            fewest = min((self.load[item] for item in items), default=0)
            return [item for item in items if self.load[item] == fewest] if least_judged else items

        firsts = choose_from([item for item in self.load if item not in resting])
        return sample_pair(firsts, lambda item: choose_from(self._partners(item, resting)), self.rng, QUICK_TRIES)

    def _partners(self, item: int, resting: AbstractSet[int]) -> list[int]:
        """The items that may still be paired with this one."""
        excluded = self._excluded(queries.issued_pairs_with(item)).get(item, set()) | resting
        return [other for other in self.members[self.group[item]] if other != item and other not in excluded]

    def _candidates(self) -> list[Candidate]:
        """Every active item. Slow, but needed only near the end of a study, when few pairs are left."""
        excluded = self._excluded(queries.issued_pairs(self.project))
        return [
            Candidate(item, self.group[item], load, frozenset(excluded.get(item, ())))
            for item, load in self.load.items()
        ]

    def _excluded(self, issued: list[IssuedPair]) -> dict[int, set[int]]:
        """For each item, the partners it cannot get: the worker has had the pair, or it has no free slot."""
        taken, own = Counter[tuple[int, int]](), set(self.imported)
        for lo, hi, slot, worker in [*issued, *self.selected]:
            taken[lo, hi] += self.design.contains(slot)
            if worker == self.worker.pk:
                own.add((lo, hi))
        excluded: dict[int, set[int]] = {}
        for lo, hi in own | {pair for pair, count in taken.items() if count >= self.project.redundancy}:
            excluded.setdefault(lo, set()).add(hi)
            excluded.setdefault(hi, set()).add(lo)
        return excluded


def sample_pair(firsts: list[int], partners: Callable[[int], list[int]], rng: Random, tries: int) -> Pair | None:
    """A random item from `firsts` with a random partner; None if `tries` items had no partner."""
    for first in rng.sample(firsts, min(tries, len(firsts))):
        seconds = partners(first)
        if not seconds:
            continue
        second = rng.choice(seconds)
        # The same pair may also come up with the second item drawn first.
        reverse = partners(second) if second in firsts else []
        probability = 1 / len(seconds) + (1 / len(reverse) if first in reverse else 0.0)
        return Pair(min(first, second), max(first, second), propensity=probability / len(firsts))
    return None


def search_pair(candidates: list[Candidate], rng: Random) -> Pair | None:
    """Pair one of the least judged items with one of its least judged partners; None if no pair is left."""
    groups: dict[str, list[Candidate]] = {}
    for candidate in candidates:
        groups.setdefault(candidate.group, []).append(candidate)
    firsts = _least_judged([c for c in candidates if _has_partner(c, groups[c.group])])
    if not firsts:
        return None
    first = rng.choice(firsts)
    group = groups[first.group]
    second = rng.choice(_least_judged(_partners(first, group)))
    propensity = _probability(first, second, firsts, group) + _probability(second, first, firsts, group)
    lo, hi = sorted((first.item, second.item))
    return Pair(lo, hi, propensity)


def _probability(first: Candidate, second: Candidate, firsts: list[Candidate], group: list[Candidate]) -> float:
    """The probability of choosing `first` from `firsts` and then `second` from its partners."""
    seconds = _least_judged(_partners(first, group))
    return 1 / len(firsts) / len(seconds) if first in firsts and second in seconds else 0.0


def _partners(candidate: Candidate, group: list[Candidate]) -> list[Candidate]:
    return [other for other in group if other.item != candidate.item and other.item not in candidate.excluded]


def _has_partner(candidate: Candidate, group: list[Candidate]) -> bool:
    return len(candidate.excluded) < len(group) - 1 or bool(_partners(candidate, group))


def _least_judged(candidates: list[Candidate]) -> list[Candidate]:
    fewest = min((c.load for c in candidates), default=0)
    return [c for c in candidates if c.load == fewest]


def _items_with_loads(design: Design) -> list[tuple[int, str, int]]:
    """Primary key, group and load of every active item; in an arm, how often the arm issued it."""
    if design.arm is None:
        return queries.active_items(design.project)
    slots = range(design.slots.start, design.slots.start + MAX_REDUNDANCY)
    loads = dict(queries.loads_in_slots(design.project, slots))
    return [(pk, group, loads.get(pk, 0)) for pk, group in design.items.order_by().values_list("pk", "group")]


def find_sample_pairs(design: Design, limit: int) -> list[tuple[Item, Item]]:
    """Up to `limit` pairs that workers could get, the same on every call, alternating between groups."""
    items = design.items
    if design.pairs == Project.Pairs.WITHIN_GROUP:
        pairable = items.values("group").annotate(n=Count("pk")).filter(n__gte=2).order_by()
        items = items.filter(group__in=pairable.values("group"))
    groups: dict[str, list[Item]] = {}
    for item in items.order_by("group", "pk")[:SAMPLED_ITEMS]:
        groups.setdefault(item.group if design.pairs == Project.Pairs.WITHIN_GROUP else "", []).append(item)
    # Neighbours 1-2, 3-4 ... first, then 2-3, 4-5 ...: no text twice, as long as there are enough.
    lists = [
        [*zip(group[::2], group[1::2], strict=False), *zip(group[1::2], group[2::2], strict=False)]
        for group in groups.values()
    ]
    return [pair for row in zip_longest(*lists) for pair in row if pair][:limit]


@transaction.atomic
def replace_suggestions(*, project: Project, user: User | None, suggestions: Sequence[Suggestion]) -> None:
    """Replace all suggested pairs of the project."""
    write_suggestions(project=project, suggestions=suggestions)
    audit(project, user, "replaced the suggested pairs", {"pairs": len(suggestions)})


@transaction.atomic
def write_suggestions(*, project: Project, suggestions: Sequence[Suggestion]) -> None:
    """Replace all suggested pairs without an audit entry: the model does so after every update."""
    Suggestion.objects.filter(project=project).delete()
    Suggestion.objects.bulk_create(suggestions, batch_size=SUGGESTION_BATCH)
