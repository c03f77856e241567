"""Split-half correlation: how well the scores of two random halves of the workers agree."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from modelling.crowdgppl.arrays import FloatArray, IntArray

from .answers import Answers, centre
from .estimates import Estimate
from .scale import RIDGE, moments

SPLITS, SEED = 100, 16
MIN_WORKERS = 5  # fewer have at most three ways to be split, which say nothing about the range
MAX_STEPS, TOLERANCE = 50, 1e-9
CHUNK_ENTRIES = 4_000_000  # in all matrices that are solved at once


def split_half(answers: Answers, log_nu: float) -> Estimate | None:
    """The median correlation between the halves over all splits, with the range of 95% of the splits.

    Items that only one half has judged are left out of a split. None with fewer than MIN_WORKERS workers or fewer than
    three common items.
    """
    correlations = np.array([r for r in split_correlations(answers, log_nu) if r is not None])
    if not len(correlations):
        return None
    low, median, high = np.quantile(correlations, [0.025, 0.5, 0.975]).tolist()
    return Estimate(median, answers.n_workers, low, high)


def spearman_brown(half: Estimate) -> Estimate:
    """Reliability of the whole crowd, which is twice as large as a half: 2r / (1 + r)."""

    def whole(r: float | None) -> float:
        return -1.0 if r is None or r <= -0.5 else 2.0 * r / (1.0 + r)

    return Estimate(whole(half.value), half.n, whole(half.low), whole(half.high))


def split_correlations(answers: Answers, log_nu: float) -> list[float | None]:
    """The correlation between the two halves of each split; None where it is undefined."""
    if answers.n_workers < MIN_WORKERS:
        return []
    halves = draw_halves(answers.n_workers)
    n_pairs = len(answers.pair_items[0])
    shape = (n_pairs, answers.n_workers)
    n = sparse.csr_matrix((answers.count, (answers.pair, answers.worker)), shape=shape)
    wins = sparse.csr_matrix((answers.count * answers.y, (answers.pair, answers.worker)), shape=shape)
    sides = np.concatenate([halves, 1.0 - halves])  # (2 SPLITS, workers)
    weight, won = np.asarray(n @ sides.T).T, np.asarray(wins @ sides.T).T
    scores = fit_halves(answers, weight, won, log_nu)
    a, b = answers.pair_items
    touches = sparse.csr_matrix(
        (np.ones(2 * n_pairs), (np.tile(np.arange(n_pairs), 2), np.append(a, b))), shape=(n_pairs, answers.n_items)
    )
    judged = np.asarray(weight @ touches) > 0
    return [correlation(answers, scores[k], scores[k + SPLITS], judged[k] & judged[k + SPLITS]) for k in range(SPLITS)]


def draw_halves(n_workers: int) -> FloatArray:
    """Draw the splits: one row each, 1 for workers in the first half. The seed is fixed, so pages and files agree."""
    rng = np.random.default_rng(SEED)
    halves = np.zeros((SPLITS, n_workers))
    for row in halves:
        row[rng.permutation(n_workers)[: n_workers // 2]] = 1.0
    return halves


def fit_halves(answers: Answers, weight: FloatArray, won: FloatArray, log_nu: float) -> FloatArray:
    """Fit each half's Bradley-Terry scores to its judgements and wins per pair, at the study's tie rate."""
    a, b = answers.pair_items
    scores = np.zeros((len(weight), answers.n_items))
    for part in np.unique(answers.parts):
        items, rows = np.flatnonzero(answers.parts == part), np.flatnonzero(answers.parts[a] == part)
        i, j = (np.searchsorted(items, each[rows]).astype(np.int64) for each in (a, b))
        step = max(1, CHUNK_ENTRIES // len(items) ** 2)
        for start in range(0, len(weight), step):
            some = np.arange(start, min(start + step, len(weight)))
            at = np.ix_(some, rows)
            incidence = sparse.csr_matrix(
                (np.repeat([1.0, -1.0], len(rows)), (np.tile(np.arange(len(rows)), 2), np.append(i, j))),
                shape=(len(rows), len(items)),
            )
            scores[np.ix_(some, items)] = _newton(incidence, i, j, weight[at], won[at], log_nu)
    return scores


def _newton(
    incidence: sparse.csr_matrix, i: IntArray, j: IntArray, weight: FloatArray, won: FloatArray, log_nu: float
) -> FloatArray:
    """Maximise the penalised likelihood of several halves of one part at once; steps are limited to 2 logits."""
    n_items = incidence.shape[1]
    f, diagonal = np.zeros((len(weight), n_items)), np.arange(n_items)
    for _ in range(MAX_STEPS):
        mean, variance, _fourth = moments(f[:, i] - f[:, j], log_nu)
        gradient = np.asarray((won - weight * mean) @ incidence) - RIDGE * f
        H = np.zeros((len(f), n_items, n_items))
        H[:, i, j] = H[:, j, i] = -weight * variance
        H[:, diagonal, diagonal] = RIDGE - H.sum(axis=2)
        step = np.linalg.solve(H, gradient[..., None])[..., 0]
        f += step * np.minimum(1.0, 2.0 / np.maximum(np.abs(step).max(axis=1, keepdims=True), 1e-300))
        if np.abs(step).max() < TOLERANCE:
            break
    return f


def correlation(answers: Answers, first: FloatArray, second: FloatArray, common: NDArray[np.bool_]) -> float | None:
    """Pearson correlation over the common items, centred within the parts of the comparison graph."""
    kept = np.flatnonzero(common)
    if len(kept) < 3:
        return None
    x, y = (centre(each[kept], answers.parts[kept]) for each in (first, second))
    scale = float(np.sqrt((x @ x) * (y @ y)))
    return float(x @ y) / scale if scale > 0 else None
