"""UKPConvArgCrowdSample as arrays, and the paper's protocol for scoring a fold. Users provide the data."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import kendalltau

from modelling.crowdgppl import PairwiseLabels

FOLDER_VARIABLE = "CONCORD_UKPCONVARG"
ANSWERS = {"a": 1.0, "b": 0.0, "tie": 0.5}
MANY_LABELS = 50  # the paper's "> 50 training pairs"
PANELS = ("consensus", "personal", "personal_many")
METRICS = ("accuracy", "cross_entropy", "tau")


@dataclass(frozen=True)
class Corpus:
    """Texts, topics and judgements; every index counts from 0."""

    texts: tuple[str, ...]
    fold: np.ndarray  # (N,) of each item
    topic: np.ndarray  # (32,) of each fold: two folds, one for each stance, share a topic
    labels: PairwiseLabels
    label_fold: np.ndarray  # (P,)
    gold_pairs: np.ndarray  # (G, 2) items, the winner first; ties left out
    gold_score: np.ndarray  # (N,) higher is better, comparable inside a fold
    personal_scores: Mapping[tuple[int, int], tuple[np.ndarray, np.ndarray]]  # (fold, worker) -> items, scores


def find_folder(given: str | None) -> Path | None:
    """Return the folder named by the argument or the environment variable, if it exists."""
    name = given or os.environ.get(FOLDER_VARIABLE)
    return Path(name) if name else None


def read_corpus(folder: Path) -> Corpus:
    """Read the files of the folder."""
    items = list(_rows(folder / "items.csv"))
    index = {row["item_id"]: i for i, row in enumerate(items)}
    judgements = list(_rows(folder / "judgements.csv"))
    workers = {name: i for i, name in enumerate(sorted({row["worker_id"] for row in judgements}))}
    gold = {row["item_id"]: float(row["score"]) for row in _rows(folder / "gold_ranking.csv")}
    labels = PairwiseLabels(
        u=np.array([workers[row["worker_id"]] for row in judgements]),
        a=np.array([index[row["item_a"]] for row in judgements]),
        b=np.array([index[row["item_b"]] for row in judgements]),
        y=np.array([ANSWERS[row["choice"]] for row in judgements]),
    )
    return Corpus(
        texts=tuple(row["text"] for row in items),
        fold=np.array([int(row["fold"]) for row in items]),
        topic=_topics(folder),
        labels=labels,
        label_fold=np.array([int(row["fold"]) for row in judgements]),
        gold_pairs=_gold_pairs(folder, index),
        gold_score=np.array([gold[row["item_id"]] for row in items]),
        personal_scores=_personal_scores(folder, index, workers),
    )


def _rows(path: Path) -> Iterator[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)


def _topics(folder: Path) -> np.ndarray:
    """The number of the topic of each fold."""
    rows = sorted(_rows(folder / "folds.csv"), key=lambda row: int(row["fold"]))
    names = sorted({row["topic"] for row in rows})
    return np.array([names.index(row["topic"]) for row in rows])


def _gold_pairs(folder: Path, index: Mapping[str, int]) -> np.ndarray:
    """Pairs with a clear consensus, the winner first."""
    sides = {"a": ("item_a", "item_b"), "b": ("item_b", "item_a")}
    rows = [row for row in _rows(folder / "gold_pairs.csv") if row["choice"] in sides]
    return np.array([[index[row[side]] for side in sides[row["choice"]]] for row in rows])


def _personal_scores(
    folder: Path, index: Mapping[str, int], workers: Mapping[str, int]
) -> dict[tuple[int, int], tuple[np.ndarray, np.ndarray]]:
    """Score the items of each fold from each worker's own labels."""
    found: dict[tuple[int, int], list[tuple[int, float]]] = {}
    for row in _rows(folder / "personal_ranking.csv"):
        key = (int(row["fold"]), workers[row["worker_id"]])
        found.setdefault(key, []).append((index[row["item_id"]], float(row["score"])))
    return {
        key: (np.array([item for item, _ in pairs]), np.array([score for _, score in pairs]))
        for key, pairs in found.items()
    }


def score_fold(corpus: Corpus, fold: int, predictor: Any) -> dict[str, float]:
    """Return the nine figures of one fold, by "panel.metric", without panels that have no workers."""
    figures = {f"consensus.{name}": value for name, value in _consensus(corpus, fold, predictor).items()}
    seen = np.bincount(corpus.labels.u[corpus.label_fold != fold], minlength=corpus.labels.u.max() + 1)
    for panel, least in (("personal", 1), ("personal_many", MANY_LABELS + 1)):
        workers = np.flatnonzero(seen >= least)
        figures |= {f"{panel}.{name}": value for name, value in _personal(corpus, fold, predictor, workers).items()}
    return figures


def _consensus(corpus: Corpus, fold: int, predictor: Any) -> dict[str, float]:
    """Agreement with the gold pairs and the gold ranking of the fold."""
    winners, losers = corpus.gold_pairs[corpus.fold[corpus.gold_pairs[:, 0]] == fold].T
    items = np.flatnonzero(corpus.fold == fold)
    tau = _tau(corpus.gold_score[items], predictor.predict_consensus(items))
    return {**_pair_figures(predictor.predict_consensus_proba(winners, losers, kind="typical")), "tau": tau}


def _personal(corpus: Corpus, fold: int, predictor: Any, workers: np.ndarray) -> dict[str, float]:
    """Agreement with each worker's own labels and ranking, averaged over workers."""
    labels = corpus.labels
    rows = np.flatnonzero((corpus.label_fold == fold) & (labels.y != 0.5) & np.isin(labels.u, workers))
    won = labels.y[rows] == 1.0
    winners, losers = np.where(won, labels.a[rows], labels.b[rows]), np.where(won, labels.b[rows], labels.a[rows])
    p = predictor.predict_proba(labels.u[rows], winners, losers)
    each = [_pair_figures(p[theirs]) for theirs in _by_worker(labels.u[rows]) if len(theirs) >= 2]
    taus = list(_personal_taus(corpus, fold, predictor, workers))
    means = {name: float(np.mean([figures[name] for figures in each])) for name in METRICS[:2] if each}
    return {**means, **({"tau": float(np.mean(taus))} if taus else {})}


def _personal_taus(corpus: Corpus, fold: int, predictor: Any, workers: np.ndarray) -> Iterator[float]:
    """Kendall's tau for each worker who ranked at least two items of the fold, not all equal."""
    for worker in workers:
        items, scores = corpus.personal_scores.get((fold, int(worker)), (np.empty(0), np.empty(0)))
        if len(items) >= 2 and np.ptp(scores) > 0:
            utilities = predictor.predict_utilities(users=np.array([worker]), items=items)[:, 0]
            yield _tau(scores, utilities)


def _tau(truth: np.ndarray, predicted: np.ndarray) -> float:
    """Kendall's tau-b; 0 for a predictor that ranks all items equal."""
    return float(kendalltau(truth, predicted).statistic) if np.ptp(predicted) > 0 else 0.0


def _by_worker(u: np.ndarray) -> Iterator[np.ndarray]:
    """The rows of each worker."""
    for worker in np.unique(u):
        yield np.flatnonzero(u == worker)


def _pair_figures(p_winner: np.ndarray) -> dict[str, float]:
    """Accuracy and cross entropy when the truth is that the first item won."""
    p = np.clip(p_winner, 1e-7, 1 - 1e-7)
    return {"accuracy": float(np.mean((p > 0.5) + 0.5 * (p == 0.5))), "cross_entropy": float(-np.mean(np.log(p)))}
