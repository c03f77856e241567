"""Settings are chosen by what they predict about groups of items never seen."""

from dataclasses import replace

import numpy as np
import pytest

from modelling.crowdgppl import Linear, Matern32, PairwiseLabels, selection, start
from modelling.crowdgppl.inducing import ItemView, spectral_space
from modelling.crowdgppl.selection import Candidate, Whitenings, deal_groups, select
from modelling.simulation import draw_labels


@pytest.fixture(scope="module")
def study():
    """Twelve topics of six texts; what makes a text good is its first feature, whatever the topic."""
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(12), 6)
    X = np.column_stack([rng.standard_normal(72), 5 * np.eye(12)[groups]])
    F = np.repeat(1.5 * X[:, :1], 10, axis=1)
    parts = [draw_labels(rng, F, 60, labelled_items=np.flatnonzero(groups == group)) for group in range(12)]
    u, a, b, y = (np.concatenate([getattr(part, name) for part in parts]) for name in "uaby")
    return PairwiseLabels(u=u, a=a, b=b, y=y), groups, X


GENERAL = Candidate("follows the feature", Linear(columns=(0, 1)))
TOPICAL = Candidate("knows the topics only", Matern32(columns=(1, 13)))


def test_what_carries_over_to_new_groups_wins(study):
    labels, groups, X = study
    chosen = select(labels, groups, [TOPICAL, GENERAL], Whitenings.of(X))
    assert chosen.winner == GENERAL
    topical, general = chosen.table
    assert general.loss < 0.6 < topical.loss
    assert general.accuracy > 0.7
    gap, spread = general.difference(topical)
    assert gap + 2 * spread < 0


def test_every_candidate_is_reported_as_it_is_done(study):
    labels, groups, X = study
    told = []
    select(labels, groups, [TOPICAL, GENERAL], Whitenings.of(X), progress=lambda *news: told.append(news))
    assert [(name, done, total) for name, done, total, _ in told] == [(TOPICAL.name, 1, 2), (GENERAL.name, 2, 2)]


def test_a_held_out_part_is_whole_groups_and_parts_are_even(study):
    labels, groups, _ = study
    part = deal_groups(groups, labels, 4)
    assert all(len(set(part[groups == group])) == 1 for group in range(12))
    assert list(np.bincount(part)) == [18, 18, 18, 18]


def test_a_kernel_is_factorised_once_and_cut_to_size(study):
    _, _, X = study
    whitenings = Whitenings.of(X, largest=20)
    large, small = (
        whitenings.space(Candidate(f"{M}", Matern32(), n_inducing_items=M)) for M in (20, 5)
    )  # fmt: skip
    np.testing.assert_array_equal(small.Psi, large.Psi[:, :5])
    assert len(whitenings._spaces) == 1
    with pytest.raises(ValueError, match="at most 20"):
        whitenings.space(Candidate("too many", Matern32(), n_inducing_items=21))


def test_a_tabulated_kernel_gives_the_same_space(study):
    _, _, X = study
    direct = spectral_space(X, Matern32().fit(X), 10)
    looked_up = Whitenings.of(X).space(Candidate("", Matern32(), n_inducing_items=10))
    np.testing.assert_allclose(looked_up.Psi, direct.Psi)
    a, b = np.array([0, 3]), np.array([5, 70])
    views = (ItemView(space) for space in (direct, looked_up))
    np.testing.assert_allclose(*(view.rest(a, b) for view in views))


def test_personal_candidates_are_scored_by_personal_predictions():
    """Half the crowd likes what the other half dislikes."""
    rng = np.random.default_rng(1)
    groups = np.repeat(np.arange(6), 6)
    X = rng.standard_normal((36, 1))
    F = 2.0 * X * np.array([1.0, -1.0] * 5)
    parts = [draw_labels(rng, F, 150, labelled_items=np.flatnonzero(groups == group)) for group in range(6)]
    u, a, b, y = (np.concatenate([getattr(part, name) for part in parts]) for name in "uaby")
    candidates = [Candidate("one taste", Linear()), Candidate("two tastes", Linear(), n_components=2)]
    chosen = select(PairwiseLabels(u=u, a=a, b=b, y=y), groups, candidates, Whitenings.of(X))
    assert chosen.winner.name == "two tastes"
    assert chosen.best.loss < 0.55


def test_impossible_questions_are_refused(study):
    labels, groups, X = study
    with pytest.raises(ValueError, match="two groups"):
        select(labels, np.zeros(72, int), [GENERAL], Whitenings.of(X))
    with pytest.raises(ValueError, match="name of its own"):
        select(labels, groups, [GENERAL, GENERAL], Whitenings.of(X))
    with pytest.raises(ValueError, match="how many items"):
        Whitenings.of(None)


def priors_of(candidate):
    """The same candidate under priors that are four times wider."""
    return replace(candidate, name="wider", personal_variance=4.0, t_prior=(1.0, 4.0))


def test_a_candidate_with_other_priors_goes_on_from_the_first_and_ends_where_a_fresh_start_would(study, monkeypatch):
    labels, groups, X = study
    first = Candidate("first", Linear(columns=(0, 1)), n_components=2, max_iterations=40)
    [cold] = select(labels, groups, [priors_of(first)], Whitenings.of(X)).table
    begun = []
    monkeypatch.setattr(selection, "begin", lambda post, *rest: begun.append(post) or start.begin(post, *rest))
    _, warm = select(labels, groups, [first, priors_of(first)], Whitenings.of(X)).table
    assert len(begun) == 4  # one for each part, by the first candidate alone
    assert warm.loss == pytest.approx(cold.loss, abs=2e-3)
    assert warm.accuracy == pytest.approx(cold.accuracy, abs=0.01)


def test_other_items_or_components_begin_afresh(study, monkeypatch):
    labels, groups, X = study
    begun = []
    monkeypatch.setattr(selection, "begin", lambda post, *rest: begun.append(post) or start.begin(post, *rest))
    first = Candidate("first", Linear(columns=(0, 1)), n_components=2)
    others = [replace(first, name="three", n_components=3), replace(first, name="another", item_kernel=Linear())]
    select(labels, groups, [first, *others], Whitenings.of(X))
    assert len(begun) == 12
