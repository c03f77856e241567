"""Reliability of the random share, and effects of order and difficulty."""

from collections.abc import Callable

import numpy as np
import pytest
from django.test import Client

from annotation import services
from annotation.models import Assignment, Project, User, Worker
from annotation.services import Receipt
from modelling.dashboards.reliability import reliability_page
from modelling.dashboards.report.document import render_report
from modelling.planning.simulator import StudyDesign, simulate
from modelling.training.reliability import (
    Answers,
    fit_scale,
    order_effect,
    random_share_reliability,
    separation_reliability,
    tie_rates_by_gap,
)
from modelling.training.reliability.effects import positions
from modelling.training.reliability.estimates import share, share_difference
from modelling.training.reliability.random_share import OneStepScores, laplacian, take_answers
from modelling.training.reliability.scale import RIDGE
from modelling.updater.update import update_one
from tests.modelling.exports.samples import csv_rows, export_bytes
from tests.modelling.samples.cached_fits import cached_fits as cached_fits

MOMENTS_RTOL = 0.07  # 2,000 simulations, and scores of variance 1 are no longer linear in the answers


def simulated(n_items: int = 12, n: int = 400, spread: float = 1.0, seed: int = 0) -> tuple[Answers, np.ndarray]:
    rng = np.random.default_rng(seed)
    t = spread * rng.standard_normal(n_items)
    pairs = np.array([np.sort(rng.choice(n_items, 2, replace=False)) for _ in range(n)])
    y = (t[pairs[:, 0]] - t[pairs[:, 1]] + rng.standard_normal(n) > 0).astype(float)
    return Answers(np.arange(n) % 8, pairs[:, 0], pairs[:, 1], y, np.ones(n), n_items, 8), t


def test_the_random_share_alone_gives_its_own_reliability() -> None:
    answers, _t = simulated()
    by_chance = np.arange(400) % 4 == 0
    found = random_share_reliability(answers, by_chance, fit_scale(answers))
    some = take_answers(answers, by_chance)
    alone = random_share_reliability(some, np.ones(100, dtype=bool), fit_scale(some))
    assert found.reliability == alone.reliability
    whole = separation_reliability(fit_scale(answers), answers.parts)
    assert found.reliability is not None
    assert found.projected is not None
    assert whole is not None
    assert found.reliability.value < found.projected.value
    assert found.projected.value == pytest.approx(whole.value, abs=0.1), "without suggestions both mean the same"


def test_a_few_random_pairs_give_no_reliability() -> None:
    answers, _t = simulated()
    scale = fit_scale(answers)
    assert random_share_reliability(answers, np.arange(400) < 11, scale).reliability is None
    assert random_share_reliability(answers, np.arange(400) < 12, scale).reliability is not None


def test_sums_of_squares_have_the_moments_that_simulation_gives() -> None:
    """Answers are coin flips, or depend on true scores with a variance of 1."""
    shape, rng = simulated(n=120)[0], np.random.default_rng(1)
    for variance in (0.0, 1.0):
        squares = []
        for _ in range(2000):
            f = np.sqrt(variance) * rng.standard_normal(12)
            y = (f[shape.a] - f[shape.b] + rng.logistic(size=120) > 0).astype(float)
            g = np.bincount(shape.a, y - 0.5, 12) - np.bincount(shape.b, y - 0.5, 12)
            scores = np.linalg.solve(laplacian(shape, np.full(120, 0.25)) + RIDGE * np.eye(12), g)
            squares.append(scores @ scores)
        mean, freedom = OneStepScores.fit(shape).distribution(variance)
        assert np.mean(squares) == pytest.approx(mean, rel=MOMENTS_RTOL)
        spread = 2.0 * mean**2 / freedom
        if variance:
            assert np.var(squares) < spread, "scores of one step are bounded, so the interval is too wide"
        else:
            assert np.var(squares) == pytest.approx(spread, rel=3.0 * MOMENTS_RTOL)


def test_noise_has_no_reliability_on_average_and_nothing_is_projected_from_it() -> None:
    found = []
    for seed in range(40):
        answers, _t = simulated(n_items=20, spread=0.0, n=80, seed=seed)
        found.append(random_share_reliability(answers, np.ones(80, dtype=bool), fit_scale(answers)))
    values = [each.reliability.value for each in found if each.reliability]
    assert len(values) == 40
    assert abs(np.mean(values)) < 0.15
    assert min(values) < 0.0
    assert sum(each.projected is not None for each in found) <= 1


def test_without_random_pairs_there_is_no_reliability() -> None:
    answers, _t = simulated(n=80)
    none = random_share_reliability(answers, np.zeros(80, dtype=bool), fit_scale(answers))
    assert (none.reliability, none.projected) == (None, None)


@pytest.mark.slow
def test_suggested_pairs_inflate_ssr_for_noise_but_not_the_reliability_of_the_random_share() -> None:
    naive, honest = [], []
    for seed in range(6):
        study = simulate(StudyDesign(20, 12, 30, careless=1.0, redundancy=20, update_batch=30), seed)
        for _n in study.run():
            pass
        labels = study.labels
        answers = Answers(labels.u, labels.a, labels.b, labels.y, np.ones(len(labels)), 20, 12)
        scale = fit_scale(answers)
        for values, found in (
            (naive, separation_reliability(scale, answers.parts)),
            (honest, random_share_reliability(answers, ~np.array(study.suggested), scale).reliability),
        ):
            assert found is not None
            values.append(found.value)
    assert np.mean(naive) > 0.4
    assert np.mean(honest) < np.mean(naive) - 0.3


def test_positions_are_counted_for_each_worker() -> None:
    assert positions(np.array([1, 0, 1, 1, 0])).tolist() == pytest.approx([0, 0, 1 / 3, 2 / 3, 1 / 2])


def test_tired_workers_show_an_order_effect() -> None:
    answers, t = simulated(n=600, spread=2.0)
    all_answers = np.ones(600, dtype=bool)
    fresh = order_effect(answers, t, all_answers)
    late = positions(answers.worker) >= 2 / 3
    y = np.where(late, np.random.default_rng(1).integers(0, 2, 600), answers.y).astype(float)
    tired = order_effect(Answers(answers.worker, answers.a, answers.b, y, answers.count, 12, 8), t, all_answers)
    assert fresh is not None
    assert tired is not None
    assert fresh.low is not None
    assert tired.high is not None
    assert fresh.low < 0.0 < (fresh.high or 0.0)
    assert tired.high < 0.0


def test_the_interval_of_a_difference_of_shares_is_newcombes() -> None:
    """The examples of Newcombe (1998), table II, method 10; full agreement in both thirds is still uncertain."""
    first, second = share(48, 80), share(56, 70)
    assert first is not None
    assert second is not None
    found = share_difference(first, second)
    assert (found.value, found.low, found.high) == pytest.approx((0.2, 0.0524, 0.3339), abs=5e-5)
    few, fewer = share(9, 10), share(3, 10)
    assert few is not None
    assert fewer is not None
    found = share_difference(fewer, few)
    assert (found.low, found.high) == pytest.approx((0.1705, 0.8090), abs=5e-5)
    answers, t = simulated(n=600, spread=2.0)
    y = (t[answers.a] > t[answers.b]).astype(float)
    perfect = Answers(answers.worker, answers.a, answers.b, y, answers.count, 12, 8)
    effect = order_effect(take_answers(perfect, np.arange(600) < 24), t, np.ones(24, dtype=bool))
    assert effect is not None
    assert effect.value == 0.0
    assert (effect.low or 0.0) < -0.2
    assert (effect.high or 0.0) > 0.2


def test_only_answers_in_a_known_order_have_an_order_effect() -> None:
    answers, t = simulated(n=600, spread=2.0)
    known = np.arange(600) % 2 == 0
    assert order_effect(answers, t, known) == order_effect(take_answers(answers, known), t, np.ones(300, dtype=bool))
    assert order_effect(answers, t, np.zeros(600, dtype=bool)) is None


def test_ties_are_counted_by_the_gap_of_the_scores() -> None:
    answers, t = simulated(n=600, spread=2.0)
    gap = np.abs(t[answers.a] - t[answers.b])
    y = np.where(gap < np.quantile(gap, 0.2), 0.5, answers.y)
    near, far = tie_rates_by_gap(Answers(answers.worker, answers.a, answers.b, y, answers.count, 12, 8), t)
    assert near is not None
    assert far is not None
    assert near.value == pytest.approx(0.4, abs=0.05)
    assert far.value == 0.0


@pytest.mark.django_db
def test_the_page_shows_the_random_share_only_where_pairs_were_suggested(
    project: Project, crowd: list[Worker], judge: Callable[..., Receipt], owner: User, log_in: Callable[[User], Client]
) -> None:
    assert update_one("test") is not None
    text = log_in(owner).get("/projects/pets/reliability/").text
    assert "No pairs were suggested by the model" in text
    assert "do not report" not in text
    assert "Reliability of random pairs" not in text
    Project.objects.update(redundancy=10)
    worker = services.enrol(project=Project.objects.get(pk=project.pk))
    for _ in range(6):
        judge(worker)
    version = update_one("test")
    assert version is not None
    page = reliability_page(version)
    policies = list(Assignment.objects.filter(judgement__isnull=False).values_list("policy", flat=True))
    assert page.suggested == policies.count("suggested") > 0
    assert page.random == policies.count("random") + policies.count("least-judged")
    text = log_in(owner).get("/projects/pets/reliability/").text
    assert "Reliability of random pairs" in text
    inflated = [measure.name for measure in page.measures if measure.inflated]
    assert inflated == ["ssr", "separation", "split_half", "split_half_spearman_brown"]
    assert [measure.inflated for measure in page.measures] == sorted(measure.inflated for measure in page.measures)
    for shown in (text, render_report(version)):
        assert shown.count("Inflated by suggested pairs: do not report") == len(inflated)
    rows = csv_rows(export_bytes(version.project, "reliability", "csv"))
    exported = {row["measure"] for row in rows if row["inflated"] == "true"}
    assert exported == {measure.name for measure in page.measures if measure.inflated and measure.estimate}
