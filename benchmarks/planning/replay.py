"""Replay of UKPConvArg: two policies choose pairs of a debate, and the recorded answers are looked up."""

from __future__ import annotations

import csv
import warnings
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import paired, print_progress
from benchmarks.paper.report import Runs
from benchmarks.paper.ukpconvarg import ANSWERS
from modelling.crowdgppl import CrowdGPPL, PairwiseLabels
from modelling.planning.policy import PairQuestion, suggest_pairs
from modelling.planning.posterior import OrderPosterior

FOLDS, POINTS = 8, (60, 120, 200, 300)  # debates replayed, and numbers of labels at which both policies are scored
BATCH = 10
RANDOM_SHARE = 0.2
Answer = tuple[int, float]  # worker and y


def replay(folder: str, seeds: Sequence[int], runs: Runs, *, quick: bool) -> dict[str, Any]:
    """Compare the policies' held-out log loss at equal numbers of labels, paired over debates and seeds."""
    points = POINTS[:1] if quick else POINTS
    pairs: list[tuple[list[float], list[float]]] = []
    for fold in range(1 if quick else FOLDS):
        for seed in seeds:
            debate = read_debate(Path(folder), fold, seed)
            losses = [
                runs.cell(partial(run_policy, debate, policy, seed, points), debate=fold, policy=policy, seed=seed)
                for policy in ("order", "random")
            ]
            if all(losses):
                pairs.append((losses[0], losses[1]))
    if not pairs:
        return {}
    order, random = np.transpose(pairs, (1, 2, 0))
    print_progress(f"replay: {random.mean(axis=1)} {order.mean(axis=1)}")
    return {
        "labels": points,
        "replays": len(pairs),
        "log_loss": {"random": random.mean(axis=1), "order": order.mean(axis=1)},
        "order_minus_random": [paired(*columns) for columns in zip(order, random, strict=True)],
    }


def read_debate(folder: Path, fold: int, seed: int) -> dict[str, Any]:
    """All answers to each pair of a debate in random order; the last one of each pair is held out."""
    with (folder / "judgements_all.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["fold"] == str(fold)]
    items = {name: n for n, name in enumerate(sorted({row[k] for row in rows for k in ("item_a", "item_b")}))}
    workers = {name: n for n, name in enumerate(sorted({row["worker_id"] for row in rows}))}
    answers: dict[tuple[int, int], list[Answer]] = defaultdict(list)
    for row in rows:
        a, b, y = items[row["item_a"]], items[row["item_b"]], ANSWERS[row["choice"]]
        answers[min(a, b), max(a, b)].append((workers[row["worker_id"]], y if a < b else 1.0 - y))
    rng, held_out = np.random.default_rng([seed, fold]), []
    for pair, given in answers.items():
        order = rng.permutation(len(given))
        answers[pair] = [given[k] for k in order[:-1]]
        held_out.append((*pair, given[order[-1]][1]))
    return {"answers": answers, "held_out": np.array(held_out), "n_items": len(items), "n_workers": len(workers)}


def run_policy(debate: dict[str, Any], policy: str, seed: int, points: Sequence[int]) -> list[float]:
    """Choose pairs by this policy; return the log loss on the held-out answers at each number of labels."""
    rng, N = np.random.default_rng([seed, 5]), debate["n_items"]
    left = {pair: list(given) for pair, given in debate["answers"].items() if given}
    loads, rows, losses = np.zeros(N), list[tuple[int, int, int, float]](), list[float]()
    queue: list[tuple[int, int]] = []
    while len(losses) < len(points):
        for _ in range(BATCH):
            queue = [pair for pair in queue if left.get(pair)]
            suggested = policy != "random" and queue and rng.random() >= RANDOM_SHARE
            pair = queue.pop(0) if suggested else least_judged(left, loads, rng, by_load=not queue)
            worker, y = left[pair].pop(0)
            if not left[pair]:
                del left[pair]
            loads[list(pair)] += 1
            rows.append((worker, *pair, y))
        scored = len(rows) >= points[len(losses)]
        if policy == "random" and not scored:
            continue
        model = fit(rows, N, debate["n_workers"])
        if scored:
            losses.append(log_loss(model, debate["held_out"]))
        if policy != "random":
            blocked = np.ones((N, N), dtype=bool)
            for a, b in left:
                blocked[a, b] = blocked[b, a] = False
            question = PairQuestion(
                "order", taste=model.item_components_.T, lapse=model.hyperparameters_["lapse"], blocked=blocked
            )
            posterior = OrderPosterior.given_scale(*model.predict_consensus(return_cov=True))
            found = suggest_pairs(posterior, question, 4 * BATCH, rng)
            queue = list(zip(found.a.tolist(), found.b.tolist(), strict=True))
    return losses


def least_judged(
    left: dict[tuple[int, int], list[Answer]], loads: np.ndarray, rng: np.random.Generator, *, by_load: bool
) -> tuple[int, int]:
    pairs = np.array(list(left))
    load = loads[pairs].sum(axis=1) if by_load else np.zeros(len(pairs))
    return tuple(pairs[rng.choice(np.flatnonzero(load == load.min()))].tolist())


def fit(rows: list[tuple[int, int, int, float]], n_items: int, n_workers: int) -> CrowdGPPL:
    u, a, b, y = (np.array(column) for column in zip(*rows, strict=True))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return CrowdGPPL().fit(PairwiseLabels(u, a, b, y), n_items=n_items, n_users=n_workers)


def log_loss(model: CrowdGPPL, held_out: np.ndarray) -> float:
    a, b, y = held_out[:, 0].astype(int), held_out[:, 1].astype(int), held_out[:, 2]
    p = np.clip(model.predict_consensus_proba(a, b), 1e-12, 1 - 1e-12)
    return float(-(y * np.log(p) + (1 - y) * np.log1p(-p)).mean())
