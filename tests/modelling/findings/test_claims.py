"""Simultaneous claims: against brute force, in limits, on simulated studies, and on the page and in the file."""

from collections.abc import Callable

import numpy as np
import pytest
from django.test import Client

from annotation.models import Item, Project, User
from modelling.dashboards.claims import claims_page, safe_sentences
from modelling.exports.catalogue import TABLES
from modelling.exports.points import resolve_point
from modelling.findings.bridging import find_bridging, preferences, taste_groups
from modelling.findings.claims import claims_of, critical_value, simultaneous_claims, transitive_closure
from modelling.findings.versions import GroupFindings, get_findings
from modelling.models import ModelSnapshot
from modelling.planning.posterior import OrderPosterior
from modelling.updater.update import update_one
from tests.modelling.samples.two_camps import make_study
from tests.modelling.samples.two_camps import snapshot as snapshot

N = 10
SAMPLING = 0.15  # of a 95 % quantile of 2,000 samples


def spread_out(sd: float, gap: float = 1.0) -> OrderPosterior:
    return OrderPosterior(gap * np.arange(N, 0, -1.0), sd**2 * np.eye(N))


def test_the_critical_value_is_that_of_the_studentised_range() -> None:
    """With independent equal errors the largest difference of ten is Tukey's range: 4.47 / sqrt(2) at 95 %."""
    found = critical_value([spread_out(0.3)], np.random.default_rng(0))
    assert found == pytest.approx(4.47 / np.sqrt(2), abs=SAMPLING)
    both = critical_value([spread_out(0.3), spread_out(0.7)], np.random.default_rng(0))
    assert both > found, "two groups at once need more"


def test_certain_scores_give_the_whole_order_and_uncertain_ones_nothing() -> None:
    sure, unsure = simultaneous_claims([spread_out(0.01), spread_out(50.0)], [None, None], np.random.default_rng(0))
    assert sure.tier.tolist() == sure.rank_low.tolist() == sure.rank_high.tolist() == list(range(1, N + 1))
    assert len(sure.covers) == N - 1
    assert not unsure.above.any()
    assert set(unsure.tier.tolist()) == {1}
    assert (unsure.rank_low[0], unsure.rank_high[0]) == (1, N)


def test_what_follows_from_claims_is_claimed() -> None:
    above = np.zeros((4, 4), dtype=bool)
    above[0, 1] = above[1, 2] = True
    closed = transitive_closure(above)
    assert closed[0, 2]
    found = claims_of(above, np.array([3.0, 2.0, 1.0, 0.0]))
    assert found.tier.tolist() == [1, 2, 3, 1]
    assert found.rank_low.tolist() == [1, 2, 3, 1]
    assert found.rank_high.tolist() == [2, 3, 4, 4]


def test_unlinked_items_are_not_compared() -> None:
    linked = np.ones((N, N), dtype=bool)
    linked[:5, 5:] = linked[5:, :5] = False
    (found,) = simultaneous_claims([spread_out(0.01)], [linked], np.random.default_rng(0))
    assert not found.above[:5, 5:].any()
    assert found.rank_high[0] == 6, "five items are not comparable with the best one"


def test_under_the_posterior_itself_at_most_five_percent_have_a_false_claim() -> None:
    rng = np.random.default_rng(4)
    posterior = spread_out(0.5, gap=0.4)
    (found,) = simultaneous_claims([posterior], [None], rng)
    assert found.above.any()
    truths = posterior.sample(1000, rng)
    false = [(found.above & (truth[:, None] <= truth[None, :])).any() for truth in truths]
    assert np.mean(false) <= 0.05


def test_bridging_is_the_lowest_preference_of_the_ends_of_components() -> None:
    weights = np.array([np.repeat([-1.0, 0.0, 1.0], 4)])
    groups = taste_groups(weights, np.full((12, 1, 1), 0.01))
    assert [(group.high, float(group.mean[0]), group.workers) for group in groups] == [(True, 1.0, 4), (False, -1.0, 4)]
    components = np.zeros((1, N))
    components[0, :2] = 3.0, -3.0  # the best two items divide the crowd
    found = find_bridging(spread_out(0.1), components, groups, np.random.default_rng(0))
    assert found.lowest.argmax() == 2
    assert (found.low <= found.lowest).all()
    assert (found.lowest <= found.high).all()
    assert found.group[:2].tolist() == [1, 0]


def test_preferences_are_those_of_all_pairs() -> None:
    from scipy.special import ndtr

    scores = np.random.default_rng(1).standard_normal(200)
    brute = ndtr(scores[:, None] - scores[None, :]).mean(axis=1)
    np.testing.assert_allclose(preferences(scores), brute, atol=0.01)  # 24 quantiles for 200 opponents


def test_too_few_workers_form_no_groups() -> None:
    assert taste_groups(np.zeros((1, 5)), np.ones((5, 1, 1))) == []


# Sentences, page and file


def findings_of(above: np.ndarray) -> GroupFindings:
    items = [Item(key=key, pk=pk) for pk, key in enumerate("abcdef"[: len(above)], start=1)]
    return GroupFindings("", items, claims_of(above, -np.arange(len(above), dtype=float)), None, n_parts=1)


def test_sentences_say_the_strongest_things_first() -> None:
    above = np.zeros((6, 6), dtype=bool)
    above[0, 1:] = above[1, 3:] = above[2, 3:] = True
    assert safe_sentences(findings_of(above), Project(top_k=4)) == [
        "“a” is first.",
        "The top 3 are, in any order: “a”, “b”, “c”.",
        "“a” is above “b” and 4 other items.",
        "“b” is above “d” and 2 other items.",
        "“c” is above “d” and 2 other items.",
    ]
    assert safe_sentences(findings_of(np.zeros((6, 6), dtype=bool)), Project(top_k=4)) == []
    above = np.zeros((3, 3), dtype=bool)
    above[0, 1:] = True
    assert "“a” is above “b” and 1 other item." in safe_sentences(findings_of(above), Project(top_k=1))


@pytest.mark.django_db
def test_page_and_file_have_the_same_claims(
    snapshot: ModelSnapshot, owner: User, log_in: Callable[[User], Client]
) -> None:
    rows = {row[0]: row for row in TABLES["claims"](resolve_point(snapshot.project)).rows}
    for group in get_findings(snapshot).groups:
        page = claims_page(snapshot, group.name)
        assert page is not None
        for each in page.items:
            assert rows[each.item.key][3:6] == (each.tier, each.rank_low, each.rank_high)
        for each in page.bridging:
            assert rows[each.item.key][8:11] == (each.lowest, each.low, each.high)
    text = log_in(owner).get("/projects/pets/claims/").text
    assert "are true together with 95 % probability" in text
    assert "Bridging items" in text


@pytest.mark.django_db
def test_one_answer_supports_no_claim(project: Project) -> None:
    make_study(project, n_items=5, n_workers=1, n_labels=1)
    version = update_one("test")
    assert version is not None
    (group,) = get_findings(version).groups
    assert not group.claims.above.any()
    assert set(group.claims.tier.tolist()) == {1}


@pytest.mark.django_db
def test_a_study_without_a_model_has_no_claims(project: Project, owner: User, log_in: Callable[[User], Client]) -> None:
    assert "No model yet" in log_in(owner).get("/projects/pets/claims/").text
