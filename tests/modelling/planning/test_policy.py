"""The policy of suggested pairs: its closed form against quadrature, symmetries, limits and purposes."""

import numpy as np
import pytest
from scipy.stats import norm

from modelling.planning.information import expected_information, observed_information
from modelling.planning.policy import PairQuestion, pair_gains, suggest_pairs
from modelling.planning.posterior import Floats, OrderPosterior

QUADRATURE = 1e-6  # closed form against a grid of 20,001 points
N = 12


@pytest.fixture
def posterior() -> OrderPosterior:
    rng = np.random.default_rng(3)
    root = rng.standard_normal((N, N)) / np.sqrt(N)
    return OrderPosterior.given_scale(rng.standard_normal(N), 0.3 * root @ root.T + 0.05 * np.eye(N))


def expected_variance(mean: float, variance: float, noise: float, lapse: float) -> float:
    """Expected variance of a difference after one answer, as a sum over a grid."""
    d = np.linspace(mean - 9 * np.sqrt(variance), mean + 9 * np.sqrt(variance), 20_001)
    prior = norm.pdf(d, mean, np.sqrt(variance))
    total = 0.0
    for sign in (1.0, -1.0):
        p = 0.5 * lapse + (1.0 - lapse) * norm.cdf(sign * d / np.sqrt(noise))
        weight = prior * p / (prior * p).sum()
        m = (weight * d).sum()
        total += (prior * p).sum() / prior.sum() * (weight * (d - m) ** 2).sum()
    return float(total)


@pytest.mark.parametrize(("taste", "lapse"), [(None, 0.0), (0.7, 0.0), (None, 0.1), (0.7, 0.3)])
def test_an_answer_lowers_the_variance_by_the_closed_form(
    posterior: OrderPosterior, taste: float | None, lapse: float
) -> None:
    loadings = None if taste is None else taste * np.random.default_rng(1).standard_normal((N, 2))
    question = PairQuestion("coverage", judgements=np.zeros(N, dtype=np.int64), taste=loadings, lapse=lapse)
    _gain, precision = pair_gains(posterior, question, np.random.default_rng(0))
    mean, variance = posterior.differences()
    for a, b in ((0, 1), (2, 7), (3, 11)):
        noise = 1.0 if loadings is None else 1.0 + float(((loadings[a] - loadings[b]) ** 2).sum())
        after = posterior.after(np.array([a]), np.array([b]), precision[[a], [b]])
        assert after.differences()[1][a, b] == pytest.approx(
            expected_variance(mean[a, b], variance[a, b], noise, lapse), rel=QUADRATURE
        )


def test_the_gain_is_what_an_answer_takes_from_the_weighted_variances(posterior: OrderPosterior) -> None:
    """With equal weights the gain is the loss of the sum of all variances of differences, up to one factor."""
    question = PairQuestion("coverage", judgements=np.zeros(N, dtype=np.int64))
    gain, precision = pair_gains(posterior, question, np.random.default_rng(0))
    lost = [
        posterior.differences()[1].sum()
        - posterior.after(np.array([a]), np.array([b]), precision[[a], [b]]).differences()[1].sum()
        for a, b in ((0, 1), (4, 9))
    ]
    assert gain[0, 1] / gain[4, 9] == pytest.approx(lost[0] / lost[1])


def test_the_uncertain_common_scale_has_no_influence(posterior: OrderPosterior) -> None:
    m = posterior.mean
    for factor in (0.1, 5.0):
        other = OrderPosterior.given_scale(m, posterior.cov + 0.1 * np.eye(N) + factor * np.outer(m, m))
        same = OrderPosterior.given_scale(m, posterior.cov + 0.1 * np.eye(N))
        np.testing.assert_allclose(other.cov, same.cov, atol=1e-6)


def test_the_order_of_the_items_does_not_matter(posterior: OrderPosterior) -> None:
    order = np.random.default_rng(2).permutation(N)
    rng = np.random.default_rng(0)
    gain, _ = pair_gains(posterior, PairQuestion("order"), rng)
    permuted, _ = pair_gains(posterior.take(order), PairQuestion("order"), rng)
    np.testing.assert_allclose(permuted, gain[np.ix_(order, order)])


def line(sd: float = 0.5) -> OrderPosterior:
    """Items in a clear order at distance 1, all equally uncertain."""
    return OrderPosterior(np.linspace(N / 2, -N / 2, N), sd**2 * np.eye(N))


def test_neighbours_teach_more_about_the_order_than_distant_items() -> None:
    gain, _ = pair_gains(line(), PairQuestion("order"), np.random.default_rng(0))
    assert gain[5, 6] > 3 * gain[5, 9] > 0


def test_pairs_for_the_top_are_about_its_boundary() -> None:
    found = suggest_pairs(line(), PairQuestion("top", top_k=3), 3, np.random.default_rng(0))
    assert (found.a[0], found.b[0]) == (2, 3)
    assert found.gain[0] > 5 * found.random_gain


def test_new_items_come_first_where_coverage_is_wanted() -> None:
    judgements = np.full(N, 30)
    judgements[[4, 8]] = 0
    question = PairQuestion("coverage", judgements=judgements)
    found = suggest_pairs(line(), question, 2, np.random.default_rng(0))
    assert all({int(a), int(b)} & {4, 8} for a, b in zip(found.a, found.b, strict=True))


def test_long_texts_cost_more() -> None:
    seconds = np.full(N, 5.0)
    seconds[:6] = 50.0
    found = suggest_pairs(line(), PairQuestion("order", seconds=seconds), 3, np.random.default_rng(0))
    assert min(found.a.min(), found.b.min()) >= 6


def test_blocked_pairs_are_not_suggested_and_items_rest_within_a_round(posterior: OrderPosterior) -> None:
    free = suggest_pairs(posterior, PairQuestion("order"), 60, np.random.default_rng(0))
    assert len(free) == len(set(zip(free.a.tolist(), free.b.tolist(), strict=True))) <= 60
    first_round = np.append(free.a[:3], free.b[:3])  # N // 4 pairs
    assert len(set(first_round.tolist())) == 6
    blocked = np.zeros((N, N), dtype=bool)
    blocked[free.a[0], free.b[0]] = True
    found = suggest_pairs(posterior, PairQuestion("order", blocked=blocked), 60, np.random.default_rng(0))
    assert (free.a[0], free.b[0]) not in set(zip(found.a.tolist(), found.b.tolist(), strict=True))
    nothing = suggest_pairs(
        posterior, PairQuestion("order", blocked=~np.eye(N, dtype=bool)), 5, np.random.default_rng(0)
    )
    assert len(nothing) == 0


@pytest.mark.parametrize("lapse", [0.0, 0.02, 0.3])
def test_observed_information_is_on_average_the_expected_one(lapse: float) -> None:
    mean, variance = np.array([0.0, 0.4, -1.5]), np.array([0.2, 1.0, 2.5])
    wins: Floats = 0.5 * lapse + (1.0 - lapse) * norm.cdf(mean / np.sqrt(1.0 + variance))
    won, lost = (observed_information(mean, variance, y, lapse) for y in (np.ones(3), np.zeros(3)))
    bits = wins * won + (1.0 - wins) * lost
    np.testing.assert_allclose(bits, expected_information(mean, variance, lapse), atol=0.01)  # approximate


def test_a_tie_between_near_items_tells_less_than_a_decision_and_one_between_distant_items_more() -> None:
    mean, variance = np.array([0.0, 0.4, -1.5]), np.array([0.2, 1.0, 2.5])
    bits, tie = expected_information(mean, variance), observed_information(mean, variance, np.full(3, 0.5))
    assert (tie[:2] < bits[:2]).all()
    assert tie[2] > bits[2]


def test_a_surprise_tells_less_where_answers_lapse() -> None:
    mean, variance = np.array([-4.0]), np.array([1.0])
    sure, lapsing = (observed_information(mean, variance, np.ones(1), lapse)[0] for lapse in (0.0, 0.1))
    assert lapsing < 0.1 * sure
