"""What a version expects of pairs, beside what people said of them."""

from dataclasses import dataclass

import numpy as np

from annotation.models import Item
from modelling.exporting.points import Point
from modelling.snapshots import Fitted, load_fitted

Pair = tuple[str, str]


@dataclass(frozen=True, eq=False)
class Expected:
    """The model of a version, and where it has each item, by the name other programs know it by."""

    fitted: Fitted
    places: dict[str, int]

    @classmethod
    def of(cls, point: Point, names: dict[str, tuple[str, int]]) -> "Expected":
        fitted = load_fitted(point.known)
        at = {int(pk): place for place, pk in enumerate(fitted.item_ids)}
        rows = Item.objects.filter(project=point.project).values_list("pk", "key", "revision")
        known = {(key, revision): at[pk] for pk, key, revision in rows if pk in at}
        return cls(fitted, {name: known[key] for name, key in names.items() if key in known})

    def of_pairs(self, pairs: list[Pair]) -> list[tuple[float | None, float | None]]:
        """By how much the first of each is better, and how probably a typical worker prefers it; None if not known."""
        told: list[tuple[float | None, float | None]] = [(None, None)] * len(pairs)
        rows = [row for row, pair in enumerate(pairs) if all(name in self.places for name in pair)]
        if not rows:
            return told
        a, b = (np.array([self.places[pairs[row][end]] for row in rows], dtype=np.int64) for end in (0, 1))
        mean, chances = self.fitted.model.predict_consensus(), self.fitted.model.predict_consensus_proba(a, b)
        for row, margin, chance in zip(rows, (mean[a] - mean[b]).tolist(), chances.tolist(), strict=True):
            told[row] = (margin, chance)
        return told
