"""What a worker could be given next, and why: a planned repeat, a suggestion of the model, or the least judged pair."""

from collections import Counter
from random import Random
from typing import Any

from annotation import statements
from annotation.assignment import Candidate, Pair, choose_pair, draw_pair
from annotation.models import Assignment, Judgement, Project, Suggestion, Worker
from annotation.statements import Given

QUICK_TRIES = 3
REPEAT_AFTER = 5  # judgements between a pair and its planned repeat

Drawn = dict[str, Any]  # the fields of an Assignment that a policy decides


class Chooser:
    """Draws pairs for one worker from what is free now. Items are read once; pairs are read for one item at a time.

    What it has drawn counts as given out, so that several draws can be stored at once.
    """

    def __init__(self, worker: Worker, rng: Random) -> None:
        self.worker, self.project, self.rng = worker, worker.project, rng
        within = self.project.pairs == Project.Pairs.WITHIN_GROUP
        items = statements.active_items(self.project)
        self.group = {pk: group if within else "" for pk, group, _load in items}
        self.load = {pk: load for pk, _group, load in items}
        self.suggestions = statements.has_suggestions(self.project)
        self.drawn: list[Given] = []
        self.any_left = True  # until a look at every pair found none
        self.members: dict[str, list[int]] = {}
        for pk, group in self.group.items():
            self.members.setdefault(group, []).append(pk)

    def draw(self) -> Drawn | None:
        """A pair and why it was chosen. Nothing is stored yet."""
        drawn = self._choose()
        if drawn is not None:
            pair = (drawn["item_lo_id"], drawn["item_hi_id"])
            self.drawn.append((*pair, drawn["slot"], self.worker.pk))
            for item in pair:
                self.load[item] += 1
        return drawn

    def _choose(self) -> Drawn | None:
        if self._toss(self.project.repeat_share) and (again := self._repeat()):
            return again
        if self.suggestions and not self._toss(self.project.random_share) and (suggested := self._suggested()):
            return suggested
        pair = self._least_judged() if self.any_left else None
        self.any_left = pair is not None
        if pair is None:
            return None
        return {**self._placed(pair.lo, pair.hi), "policy": "least-judged", "propensity": pair.propensity}

    def _toss(self, percent: int) -> bool:
        return percent > 0 and self.rng.random() < percent / 100

    def _placed(self, lo: int, hi: int) -> Drawn:
        """The pair in its lowest free slot, either one on the left."""
        given = [*statements.given_pair(lo, hi), *self.drawn]
        slots = {slot for one, other, slot, _worker in given if (one, other) == (lo, hi)}
        slot = next((slot for slot in range(1, self.project.redundancy + 1) if slot not in slots), None)
        return {"item_lo_id": lo, "item_hi_id": hi, "slot": slot, "lo_is_left": self.rng.random() < 0.5}

    def _repeat(self) -> Drawn | None:
        """A pair this worker judged a while ago and has not had again, with its sides swapped."""
        judged = Judgement.objects.filter(worker=self.worker, retraction=None, assignment__purpose="normal")
        columns = ("item_lo", "item_hi", "lo_was_left", "round")
        earlier = list(judged.order_by("-sequence").values_list(*columns)[REPEAT_AFTER:])
        again = set(self.worker.assignments.filter(purpose="repeat").values_list("item_lo", "item_hi"))
        able = [row for row in earlier if row[:2] not in again and {*row[:2]} <= self.load.keys()]
        able = [row for row in able if not self._was_drawn(*row[:2])]
        if not able:
            return None
        lo, hi, lo_was_left, round_ = self.rng.choice(able)
        why = {"policy": "repeat", "propensity": 1 / len(able), "purpose": Assignment.Purpose.REPEAT, "slot": None}
        return {"item_lo_id": lo, "item_hi_id": hi, "lo_is_left": not lo_was_left, "round": round_ + 1, **why}

    def _suggested(self) -> Drawn | None:
        """The pair the model would learn most from, among those this worker has not met and that have a slot left."""
        for suggestion in Suggestion.objects.fresh_for(self.worker).best_first()[:QUICK_TRIES]:
            lo, hi = suggestion.item_lo_id, suggestion.item_hi_id
            drawn = self._placed(lo, hi)
            if drawn["slot"] is not None and not self._was_drawn(lo, hi):
                return {**drawn, "policy": "suggested", "propensity": None}
        return None

    def _was_drawn(self, lo: int, hi: int) -> bool:
        return any((lo, hi) == pair[:2] for pair in self.drawn)

    def _least_judged(self) -> Pair | None:
        """Quickly from the least judged items; where those have no partner left, by looking at every pair."""
        fewest = min(self.load.values(), default=0)
        firsts = [item for item, load in self.load.items() if load == fewest]
        return draw_pair(firsts, self._partners, self.rng, QUICK_TRIES) or choose_pair(self._candidates(), self.rng)

    def _partners(self, item: int) -> list[int]:
        """The least judged of the items that this one may still be shown with."""
        barred = self._barred(statements.given_with(item)).get(item, set())
        able = [other for other in self.members[self.group[item]] if other != item and other not in barred]
        fewest = min((self.load[other] for other in able), default=0)
        return [other for other in able if self.load[other] == fewest]

    def _candidates(self) -> list[Candidate]:
        """Every active item with whom it may not meet: for the end of a study, when pairs are few."""
        barred = self._barred(statements.given(self.project))
        return [
            Candidate(item, self.group[item], load, frozenset(barred.get(item, ()))) for item, load in self.load.items()
        ]

    def _barred(self, given: list[Given]) -> dict[int, set[int]]:
        """Whom each item may not meet: the pair was given to this worker, or all its slots are taken."""
        taken, mine = Counter[tuple[int, int]](), set[tuple[int, int]]()
        for lo, hi, slot, worker in [*given, *self.drawn]:
            taken[lo, hi] += slot is not None
            if worker == self.worker.pk:
                mine.add((lo, hi))
        barred: dict[int, set[int]] = {}
        for lo, hi in mine | {pair for pair, count in taken.items() if count >= self.project.redundancy}:
            barred.setdefault(lo, set()).add(hi)
            barred.setdefault(hi, set()).add(lo)
        return barred
