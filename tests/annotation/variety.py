"""The rule of variety, checked on the pairs that a worker was shown."""

import uuid
from collections import Counter
from itertools import pairwise
from random import Random

from annotation import services
from annotation.models import Project
from annotation.services import lease_pairs


def judge_all(project: Project, seed: int) -> list[tuple[int, int]]:
    """A new worker answers until they are finished; the pairs in the order shown."""
    worker, rng, shown = services.enrol(project=project), Random(seed), []
    while leases := lease_pairs(worker=worker, rng=rng):
        shown += [(leases[0].item_lo_id, leases[0].item_hi_id)]
        services.record_judgement(worker=worker, uuid=uuid.uuid4(), assignment=leases[0].public_id, choice="left")
        worker.refresh_from_db()
    return shown


def find_repetitions(shown: list[tuple[int, int]]) -> list[str]:
    """Violations: an item of the last pair again, or one in more than 3 of 10 consecutive pairs."""
    found = [f"pair {n + 1} repeats an item of pair {n}" for n, (a, b) in enumerate(pairwise(shown), 1) if {*a} & {*b}]
    for start in range(len(shown)):
        counts = Counter(item for pair in shown[start : start + 10] for item in pair)
        found += [f"item {item} is in {n} of the pairs from {start + 1}" for item, n in counts.items() if n > 3]
    return found
