"""The pairs of a first visitor: no text of the last pair again, and none too often."""

from collections import Counter
from collections.abc import Callable
from itertools import pairwise

from tests.browser.judging.judging_session import JudgingSession


def test_a_first_visitor_meets_no_text_twice_in_a_row(start_session: Callable[..., JudgingSession]) -> None:
    session = start_session(quota=16)
    for number in range(15):
        session.press("12"[number % 2])
    shown = [answer.texts for answer in session.answers]
    assert len(shown) == 15
    assert [n for n, (last, current) in enumerate(pairwise(shown)) if last & current] == []
    most = max(max(Counter(text for pair in shown[n : n + 10] for text in pair).values()) for n in range(6))
    assert most <= 3
