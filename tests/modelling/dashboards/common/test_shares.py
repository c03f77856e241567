"""Shares with their 95 % intervals."""

import pytest
from scipy.stats import binomtest

from modelling.dashboards.common.shares import NO_SHARE, Share


@pytest.mark.parametrize(("k", "n"), [(0, 5), (3, 4), (33, 40), (100, 200), (200, 200)])
def test_the_interval_is_that_of_wilson(k: int, n: int) -> None:
    expected = binomtest(k, n).proportion_ci(method="wilson")
    assert Share(k, n).interval == pytest.approx((expected.low, expected.high), abs=1e-4)


def test_a_share_that_includes_one_half_is_not_distinguished_from_chance() -> None:
    assert [each.differs_from_chance for each in (Share(5, 6), Share(33, 40), Share(7, 40), NO_SHARE)] == [
        False, True, True, False,
    ]  # fmt: skip
