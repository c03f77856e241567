"""Measures of reliability against plain second implementations."""

from collections import defaultdict
from itertools import permutations

import numpy as np
import pytest
from scipy.optimize import minimize

from modelling.training.reliability import (
    Answers,
    Scale,
    fit_scale,
    fit_statistics,
    krippendorff_alpha,
    separation,
    separation_reliability,
    spearman_brown,
    split_half,
)
from modelling.training.reliability.scale import RIDGE, reliability_estimate
from modelling.training.reliability.split_half import draw_halves

VALUES = np.array([1.0, 0.0, 0.5])


def make_answers(n_items: int = 7, n_workers: int = 6, n: int = 150) -> Answers:
    """Two parts of the comparison graph, with ties and repeats."""
    rng = np.random.default_rng(3)
    first = rng.integers(0, n_items, n)
    second = (first + rng.integers(1, n_items, n)) % n_items
    part = n_items * rng.integers(0, 2, n)
    a, b = np.minimum(first, second) + part, np.maximum(first, second) + part
    quality = rng.standard_normal(2 * n_items)
    y = (rng.random(n) < 1 / (1 + np.exp(quality[b] - quality[a]))).astype(float)
    y[rng.random(n) < 0.15] = 0.5
    return Answers(rng.integers(0, n_workers, n), a, b, y, np.ones(n), 2 * n_items, n_workers)


def probabilities(f_a: float, f_b: float, log_nu: float) -> np.ndarray:
    mass = np.exp([f_a, f_b, log_nu + (f_a + f_b) / 2])
    return np.asarray(mass / mass.sum())


def plain_information(answers: Answers, scale: Scale) -> np.ndarray:
    H = RIDGE * np.eye(answers.n_items)
    for a, b in zip(answers.a, answers.b, strict=True):
        p = probabilities(scale.scores[a], scale.scores[b], scale.log_nu)
        e = np.zeros(answers.n_items)
        e[a], e[b] = 1.0, -1.0
        H += (p @ VALUES**2 - (p @ VALUES) ** 2) * np.outer(e, e)
    return H


def test_separation_equals_the_formula_with_a_dense_information_matrix() -> None:
    answers = make_answers()
    scale = fit_scale(answers)
    C = np.eye(14) - np.kron(np.eye(2), np.full((7, 7), 1 / 7))
    errors = np.sqrt(np.diag(C @ np.linalg.inv(plain_information(answers, scale)) @ C))
    assert scale.errors == pytest.approx(errors, abs=1e-9)
    variance = sum(scale.scores[part].var() * 7 for part in (slice(7), slice(7, 14))) / 12
    ssr = 1 - (errors**2).mean() / variance
    found = separation_reliability(scale, answers.parts)
    assert found is not None
    assert found.value == pytest.approx(ssr, abs=1e-6)
    assert separation(found).value == pytest.approx(np.sqrt(ssr / (1 - ssr)), abs=1e-6)
    assert found.low is not None
    assert found.high is not None
    assert found.low < found.value < found.high


def test_equal_scores_have_no_separation() -> None:
    rounding = 1e-16 * np.array([1.0, -2.0, 1.0])
    assert reliability_estimate(rounding, 0.2, np.zeros(3, dtype=np.int64)) is None


def test_infit_and_outfit_equal_a_plain_loop() -> None:
    answers = make_answers()
    scale = fit_scale(answers)
    items = fit_statistics(answers, scale, [answers.a, answers.b], 14)
    workers = fit_statistics(answers, scale, [answers.worker], 6)
    members = [(items, n, (answers.a == n) | (answers.b == n)) for n in range(14)]
    members += [(workers, n, answers.worker == n) for n in range(6)]
    for fit, n, rows in members:
        residuals, variances = [], []
        for a, b, y in zip(answers.a[rows], answers.b[rows], answers.y[rows], strict=True):
            p = probabilities(scale.scores[a], scale.scores[b], scale.log_nu)
            residuals.append(y - p @ VALUES)
            variances.append(p @ (VALUES - p @ VALUES) ** 2)
        squares = np.square(residuals)
        assert fit.infit[n] == pytest.approx(squares.sum() / sum(variances), abs=1e-6)
        assert fit.outfit[n] == pytest.approx(np.mean(squares / variances), abs=1e-6)
        assert fit.n[n] == rows.sum()


def test_alpha_equals_an_enumerated_coincidence_matrix() -> None:
    answers = make_answers()
    units: dict[tuple[int, int], dict[int, float]] = {}
    for worker, a, b, y in zip(answers.worker, answers.a, answers.b, answers.y, strict=True):
        units.setdefault((a, b), {}).setdefault(worker, y)
    shared = [list(unit.values()) for unit in units.values() if len(unit) > 1]
    coincidences: dict[tuple[float, float], float] = defaultdict(float)
    for values in shared:
        for pair in permutations(values, 2):
            coincidences[pair] += 1 / (len(values) - 1)
    totals = {c: sum(n for (first, _), n in coincidences.items() if first == c) for c in VALUES}
    n = sum(totals.values())
    observed = sum(count for (c, k), count in coincidences.items() if c != k) / n
    expected = sum(totals[c] * totals[k] for c, k in permutations(VALUES, 2)) / (n * (n - 1))
    found = krippendorff_alpha(answers)
    assert found is not None
    assert found.value == pytest.approx(1 - observed / expected, abs=1e-9)
    assert found.n == len(shared)
    assert found.low is not None
    assert found.high is not None
    assert found.low < found.value < found.high


def plain_scores(answers: Answers, rows: np.ndarray, log_nu: float) -> np.ndarray:
    a, b, y = answers.a[rows], answers.b[rows], answers.y[rows]

    def loss(f: np.ndarray) -> float:
        logits = np.stack([f[a], f[b], log_nu + (f[a] + f[b]) / 2])
        chosen = logits[np.select([y == 1.0, y == 0.0], [0, 1], 2), np.arange(len(y))]
        return float(np.log(np.exp(logits).sum(axis=0)).sum() - chosen.sum() + RIDGE / 2 * f @ f)

    return np.asarray(minimize(loss, np.zeros(answers.n_items), method="BFGS", options={"gtol": 1e-7}).x)


def test_fewer_than_five_workers_have_no_split_half_correlation() -> None:
    assert split_half(make_answers(n_workers=5), 0.0) is not None
    assert split_half(make_answers(n_workers=4), 0.0) is None


@pytest.mark.slow
def test_split_half_equals_a_plain_loop_over_the_splits() -> None:
    answers = make_answers(n_items=4, n=120)
    log_nu = fit_scale(answers).log_nu
    correlations = []
    for first in draw_halves(answers.n_workers):
        halves = [first[answers.worker] == 1.0, first[answers.worker] == 0.0]
        scores = [plain_scores(answers, rows, log_nu) for rows in halves]
        judged = [set(answers.a[rows]) | set(answers.b[rows]) for rows in halves]
        both = sorted(judged[0] & judged[1])
        parts = [[n for n in both if n < 4], [n for n in both if n >= 4]]
        x, y = (np.concatenate([each[part] - each[part].mean() for part in parts]) for each in scores)
        correlations.append(x @ y / np.sqrt(x @ x * (y @ y)))
    found = split_half(answers, log_nu)
    assert found is not None
    assert len(correlations) == 100
    assert found.value == pytest.approx(np.median(correlations), abs=1e-4)
    assert spearman_brown(found).value == pytest.approx(2 * found.value / (1 + found.value), abs=1e-12)
