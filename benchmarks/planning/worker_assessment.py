"""How many careless workers are found, and how many honest ones flagged, at 60 judgements each.

    python -m benchmarks.planning.worker_assessment [--crowds 20] [--first-seed 200]

A crowd has 50 workers and 50 items: a fifth are honest dissenters, a fifth are careless (random clicks, always left,
alternating sides, and tired: random from the middle on), one tenth are honest but noisy. Dissenters share another
opinion, hold the opposite of the consensus, or each have their own opinion. Two more workers answer like a program:
without noise, and faster than anyone reads. Careless workers take as long as others, so only
their answers give them away.
"""

from __future__ import annotations

import argparse
import warnings
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.stats import fisher_exact

from benchmarks.harness import arguments, print_progress, publish, timed
from modelling.crowdgppl import CrowdGPPL, PairwiseLabels
from modelling.findings.workers.assessment import WorkerFacts, assess_workers
from modelling.findings.workers.patterns import AnswerSheet
from modelling.training.reliability.estimates import wilson_interval

NAME = "worker_assessment"
ITEMS, WORKERS, EACH = 50, 50, 60
SPREAD, TASTE, NOISY = 1.5, 0.5, 1.5  # standard deviations of scores, of tastes, and of the noise of noisy workers
CARELESS = ("random", "left", "alternating", "tired")
HONEST = ("ordinary", "noisy", "dissenting")
DISSENT = ("shared", "opposite", "own")
FLAGGED = 0.5
CHARACTERS = 300.0
MIN_RECALL, MAX_FALSE = 0.9, 0.02
MIN_P = 0.05  # of Fisher's test that dissenters are flagged more often than other honest workers, in each kind of crowd


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    options = parse(argv)
    crowds = range(options.first_seed, options.first_seed + (1 if options.quick else options.crowds))
    result: dict[str, Any] = {"crowds_of_each_kind": len(crowds), "first_seed": crowds[0], "judgements_each": EACH}
    every: dict[str, list[WorkerFacts]] = defaultdict(list)
    seconds = []
    for dissent in DISSENT[:1] if options.quick else DISSENT:
        found: dict[str, list[WorkerFacts]] = defaultdict(list)
        for seed in crowds:
            roles, facts, spent = run_crowd(dissent, seed)
            seconds.append(spent)
            for each in facts:
                found[roles[each.worker]].append(each)
                every[roles[each.worker]].append(each)
        result[f"dissenters: {dissent}"] = summary(found)
        print_progress(f"{dissent}: {result[f'dissenters: {dissent}']}")
    result["all"] = summary(every)
    result["cpu_seconds_per_crowd"] = float(np.mean(seconds))
    fair = [each["dissenters_flagged_more_p"] >= MIN_P for each in result.values() if isinstance(each, dict)]
    honest_flagged, recall = result["all"]["honest_flagged"], result["all"]["recall"]
    result["met"] = bool(recall >= MIN_RECALL and honest_flagged <= MAX_FALSE and all(fair))
    return publish(NAME, result, options)


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = arguments(__doc__)
    parser.add_argument("--crowds", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=200, help="seeds below 200 were used to choose constants")
    return parser.parse_args(argv)


def run_crowd(dissent: str, seed: int) -> tuple[list[str], list[WorkerFacts], float]:
    """Simulate and assess a crowd; return its roles, the assessments and their CPU seconds."""
    rng = np.random.default_rng([seed, DISSENT.index(dissent), 12])
    roles = draw_roles(rng)
    sheet = judge(roles, draw_utilities(roles, dissent, rng), rng)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = CrowdGPPL().fit(PairwiseLabels(sheet.u, sheet.a, sheet.b, sheet.y), n_items=ITEMS)
    facts, spent = timed(lambda: assess_workers(model, sheet, np.arange(ITEMS)))
    return roles, facts, spent


def draw_roles(rng: np.random.Generator) -> list[str]:
    roles = ["dissenting"] * (WORKERS // 5) + ["noisy"] * (WORKERS // 10)
    roles += [CARELESS[k % len(CARELESS)] for k in range(WORKERS // 5)] + ["program"] * 2
    roles += ["ordinary"] * (WORKERS - len(roles))
    return [roles[at] for at in rng.permutation(WORKERS)]


def draw_utilities(roles: list[str], dissent: str, rng: np.random.Generator) -> np.ndarray:
    """Utilities (items, workers)."""
    t, other = SPREAD * rng.standard_normal((2, ITEMS))
    F = t[:, None] + TASTE * rng.standard_normal((ITEMS, 2)) @ rng.standard_normal((2, WORKERS)) / np.sqrt(2.0)
    for worker, role in enumerate(roles):
        if role == "program":
            F[:, worker] = t
        if role == "dissenting":
            own = {"shared": other + F[:, worker] - t, "opposite": -F[:, worker]}
            F[:, worker] = own[dissent] if dissent in own else SPREAD * rng.standard_normal(ITEMS)
    return F


def judge(roles: list[str], F: np.ndarray, rng: np.random.Generator) -> AnswerSheet:
    """Random pairs on random sides, answered by each worker in turn."""
    rows = []
    for worker, role in enumerate(roles):
        for place in range(EACH):
            a, b = np.sort(rng.choice(ITEMS, 2, replace=False))
            a_left = bool(rng.random() < 0.5)
            noise = {"noisy": NOISY, "program": 0.0}.get(role, 1.0) * rng.standard_normal()
            first = bool(F[a, worker] - F[b, worker] + noise > 0.0)
            if role == "random" or (role == "tired" and place >= EACH // 2):
                first = bool(rng.random() < 0.5)
            elif role == "left":
                first = a_left
            elif role == "alternating":
                first = a_left == (place % 2 == 0)
            ms = 800.0 if role == "program" else 1000.0 * rng.lognormal(2.0, 0.5)
            rows.append((worker, a, b, float(first), float(first == a_left), ms, CHARACTERS))
    columns = (np.array(column) for column in zip(*rows, strict=True))
    return AnswerSheet(*columns)


def summary(found: dict[str, list[WorkerFacts]]) -> dict[str, Any]:
    careless = [each for role in CARELESS for each in found[role]]
    honest = [each for role in HONEST for each in found[role]]
    return {
        "recall": flagged(careless),
        "recall_interval": wilson_interval(flagged(careless), len(careless)),
        "honest_flagged": flagged(honest),
        "honest_interval": wilson_interval(flagged(honest), len(honest)),
        "dissenters_flagged": flagged(found["dissenting"]),
        "other_honest_flagged": flagged(found["ordinary"] + found["noisy"]),
        "dissenters_flagged_more_p": flagged_more(found["dissenting"], found["ordinary"] + found["noisy"]),
        "flagged": {role: flagged(found[role]) for role in (*CARELESS, *HONEST)},
        "n": {role: len(found[role]) for role in (*CARELESS, *HONEST, "program")},
        "called_different": {role: share(found[role], lambda each: each.different > FLAGGED) for role in HONEST},
        "called_automated": {
            role: share(found[role], lambda each: each.looks_automated) for role in (*HONEST, *CARELESS, "program")
        },
    }


def flagged_more(some: list[WorkerFacts], others: list[WorkerFacts]) -> float:
    """Fisher's one-sided p that some workers are flagged more often than others."""
    counts = [[sum(each.careless > FLAGGED for each in facts), len(facts)] for facts in (some, others)]
    table = [[found, total - found] for found, total in counts]
    return float(fisher_exact(table, alternative="greater").pvalue)


def flagged(facts: list[WorkerFacts]) -> float:
    return share(facts, lambda each: each.careless > FLAGGED)


def share(facts: list[WorkerFacts], test: Any) -> float:
    return float(np.mean([test(each) for each in facts])) if facts else float("nan")


if __name__ == "__main__":
    main()
