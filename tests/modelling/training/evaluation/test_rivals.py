"""Methods of other packages: the numbers are theirs, ties count half, what is missing is named."""

import numpy as np
import pytest

from modelling.baselines import BradleyTerry
from modelling.crowdgppl import PairwiseLabels
from modelling.training.evaluation import rivals
from modelling.training.evaluation.rivals import PACKAGES, RIVALS, choose_rivals, scores_of
from tests.modelling.crowdgppl.crowds import Crowd, make_crowd


@pytest.fixture(scope="module")
def crowd() -> Crowd:
    return make_crowd(seed=2, components=0, ties=0.1, features=True)


def fit(name: str, crowd: Crowd, labels: PairwiseLabels | None = None):
    method = RIVALS[name]
    package = next(package for package in PACKAGES if package.method.name == name)
    if not package.installed:
        pytest.skip(package.install)
    return method.fit(labels or crowd.labels, X_items=crowd.X, **crowd.sizes)


@pytest.mark.parametrize("name", RIVALS)
@pytest.mark.filterwarnings("ignore")  # of the packages
def test_a_rival_predicts_held_out_answers_better_than_chance(name: str, crowd: Crowd) -> None:
    p = fit(name, crowd).predict_proba(crowd.held.u, crowd.held.a, crowd.held.b)
    assert ((p > 0) & (p < 1)).all()
    assert np.mean((p > 0.5) == (crowd.held.y == 1)) > 0.7


@pytest.mark.parametrize("name", ["choix", "evalica", "arena_rank"])
def test_bradley_terry_of_other_packages_agrees_with_ours(name: str, crowd: Crowd) -> None:
    ours = BradleyTerry().fit(crowd.labels, **crowd.sizes).predict_consensus_proba(crowd.held.a, crowd.held.b)
    theirs = fit(name, crowd).predict_proba(crowd.held.u, crowd.held.a, crowd.held.b)
    assert np.abs(theirs - ours).max() < 0.05  # only the penalties differ


@pytest.mark.parametrize("name", ["choix", "evalica", "arena_rank"])
def test_ties_alone_say_nothing(name: str, crowd: Crowd) -> None:
    ties = PairwiseLabels(crowd.labels.u, crowd.labels.a, crowd.labels.b, np.full(len(crowd.labels), 0.5))
    p = fit(name, crowd, ties).predict_proba(crowd.held.u, crowd.held.a, crowd.held.b)
    assert np.allclose(p, 0.5, atol=1e-3)


def test_items_that_a_package_has_not_seen_are_average() -> None:
    assert scores_of({2: 3.0, 0: 1.0}, 4).tolist() == [1.0, 2.0, 3.0, 2.0]


def test_a_missing_package_is_named_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rivals, "find_spec", lambda module: None if module == "choix" else object())
    methods, missing = choose_rivals(n_items=1000)
    assert "choix" not in {method.name for method in methods}
    assert missing == [
        "choix is not installed: pip install choix.",
        "BoTorch PairwiseGP is left out: it takes at most 500 items here.",
    ]


@pytest.mark.parametrize("name", ["choix", "arena_rank"])  # evalica gives equal scores
def test_an_item_that_always_wins_leaves_the_order_of_the_others(name: str, crowd: Crowd) -> None:
    chain = [(0, 0, 1)] * 9 + [(0, 1, 2)] * 9 + [(0, 2, 1)] * 3
    u, a, b = (np.array(column) for column in zip(*chain, strict=True))
    p = fit(name, crowd, PairwiseLabels(u, a, b, np.ones(len(u)))).predict_proba(u[:1], np.array([1]), np.array([2]))
    assert 0.6 < p[0] < 0.9
