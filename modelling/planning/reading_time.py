"""Estimate how long a pair takes: a fixed time plus a time per character, from the study's own response times."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from django.db.models import F
from django.db.models.functions import Length
from scipy.stats import theilslopes

from annotation.models import Judgement, Project
from modelling.planning.posterior import Floats

MIN_TIMED, MAX_TIMED = 30, 400  # response times; more would not change the estimate
PLAUSIBLE_MS = (300, 300_000)
DEFAULT_BASE, DEFAULT_PER_CHARACTER = 2.5, 0.05  # seconds; about four English words a second
LEAST_BASE = 0.5


@dataclass(frozen=True)
class ReadingTime:
    """Seconds for a pair: `base` plus `per_character` of both texts, from `n` response times (0: a default)."""

    base: float = DEFAULT_BASE
    per_character: float = DEFAULT_PER_CHARACTER
    n: int = 0

    def per_item(self, lengths: Floats) -> Floats:
        """Seconds for each item; a pair takes the sum of its two items' seconds."""
        return np.asarray(self.base / 2.0 + self.per_character * lengths)


def reading_time(project: Project) -> ReadingTime:
    """Estimate by Theil-Sen regression on the newest response times; the defaults if there are too few."""
    timed = Judgement.objects.filter(project=project, response_ms__range=PLAUSIBLE_MS, clock_doubtful=False)
    length = Length("item_lo__text") + Length("item_hi__text")
    rows = list(timed.order_by("-sequence").annotate(n=length).values_list("n", F("response_ms"))[:MAX_TIMED])
    if len(rows) < MIN_TIMED:
        return ReadingTime()
    lengths, seconds = np.array(rows, dtype=np.float64).T * np.array([[1.0], [0.001]])
    slope, intercept = (0.0, float(np.median(seconds))) if np.ptp(lengths) == 0 else theilslopes(seconds, lengths)[:2]
    if slope <= 0.0 or intercept < LEAST_BASE:
        slope = max(0.0, float(np.median((seconds - LEAST_BASE) / np.maximum(lengths, 1.0)))) if slope > 0.0 else 0.0
        intercept = LEAST_BASE if slope > 0.0 else float(np.median(seconds))
    return ReadingTime(float(intercept), float(slope), len(rows))
