"""Simulated plans: agreement and spread are two ways to say the same, and accuracy grows with judgements."""

import numpy as np
import pytest

from modelling.planning.designer import (
    MEASURES,
    StudyPlan,
    agreements,
    bands,
    judgements_for,
    read_curves,
    simulate_plan,
    spreads,
)
from modelling.planning.simulator import draw_crowd

PLAN = StudyPlan(
    n_items=8, n_workers=6, judgements_each=20, redundancy=10, policy="order", top_k=3, random_share=0.2,
    self_agreement=0.9, agreement=0.85, crowds=3,
)  # fmt: skip


@pytest.mark.parametrize(("own", "shared"), [(0.85, 0.75), (0.9, 0.9), (0.6, 0.55)])
def test_agreements_and_spreads_are_inverse(own: float, shared: float) -> None:
    assert agreements(*spreads(own, shared)) == pytest.approx((own, shared))


def test_simulated_workers_agree_as_often_as_assumed() -> None:
    """The tolerance is .02 because simulated tastes are products of normal variables, which are not normal."""
    plan = StudyPlan(**{**PLAN.as_dict(), "n_items": 200, "n_workers": 60, "self_agreement": 0.85, "agreement": 0.75})
    rng = np.random.default_rng(1)
    crowd = draw_crowd(plan.design, rng)
    a, b = rng.integers(0, 200, (2, 40_000))
    u, v = rng.integers(0, 60, (2, 40_000))
    first, again, other = (crowd.F[a, who] - crowd.F[b, who] + rng.standard_normal(40_000) > 0 for who in (u, u, v))
    usable = a != b
    assert (first == again)[usable].mean() == pytest.approx(0.85, abs=0.02)
    assert (first == other)[usable & (u != v)].mean() == pytest.approx(0.75, abs=0.02)


def test_accuracy_grows_and_rank_intervals_shrink() -> None:
    crowds = [read_curves(PLAN, list(simulate_plan(PLAN, seed))) for seed in range(3)]
    found = bands(crowds)
    assert set(found) == set(MEASURES)
    assert found["tau"].mean[-1] > found["tau"].mean[0]
    assert found["width"].mean[-1] < found["width"].mean[0]
    for band in found.values():
        assert (band.low <= band.mean + 1e-9).all()
        assert (band.mean <= band.high + 1e-9).all()


def test_the_same_seed_gives_the_same_curves() -> None:
    assert list(simulate_plan(PLAN, 0)) == list(simulate_plan(PLAN, 0))


def test_the_judgements_for_a_target_are_the_first_that_reach_it() -> None:
    grid, mean = [10, 20, 30], np.array([0.5, 0.7, 0.9])
    assert [judgements_for(target, grid, mean) for target in (0.4, 0.7, 0.95)] == [10, 20, None]


def test_the_grid_ends_with_all_judgements() -> None:
    assert PLAN.grid()[-1] == PLAN.n_judgements == 120
