"""Keywords of both ends of a component."""

import numpy as np

from modelling.features.keywords import build_word_table, extract_words, find_keywords

TEXTS = [f"the evidence shows {n}" for n in range(6)] + [f"a tale of neighbours {n}" for n in range(6)] + ["the"] * 6
VALUES = np.array([2.0] * 6 + [-2.0] * 6 + [0.0] * 6) + 0.01 * np.arange(18)


def test_keywords_of_both_ends_are_found_without_function_words() -> None:
    ends = find_keywords(build_word_table(TEXTS), VALUES)
    assert ends.high == ["evidence", "shows"]
    assert ends.low == ["neighbours", "tale"]
    assert (ends.high_length, ends.low_length) == (4.0, 5.0)


def test_negating_the_values_swaps_the_ends() -> None:
    table = build_word_table(TEXTS)
    there, back = find_keywords(table, VALUES), find_keywords(table, -VALUES)
    assert (there.high, there.low) == (back.low, back.high)


def test_the_difference_of_means_is_in_standard_errors() -> None:
    """Words are shown from two standard errors on."""
    values = np.array([1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    texts = ["cats"] * 3 + ["dogs"] * 5
    clearness = 1.0 / (values.std() * np.sqrt(1 / 3 + 1 / 5))
    assert clearness > 2.0
    assert find_keywords(build_word_table(texts), values).high == ["cats"]
    assert find_keywords(build_word_table(texts), np.array([1.0, 0, 0, 1, 0, 0, 1, 0])).high == []


def test_without_a_pattern_there_are_no_keywords() -> None:
    for texts, values in ((["one two"] * 3, np.zeros(3)), ([""] * 3, np.arange(3.0)), ([], np.zeros(0))):
        ends = find_keywords(build_word_table(texts), values)
        assert (ends.high, ends.low) == ([], [])


def test_case_is_ignored_and_accents_are_not() -> None:
    assert extract_words("The Überraschung IS größer, isn't 3x") == {"überraschung", "größer"}
