"""Words that tell one end of a component from the other."""

import numpy as np

from modelling.words import distinguishing, word_table, words_in

TEXTS = [f"the evidence shows {n}" for n in range(6)] + [f"a tale of neighbours {n}" for n in range(6)] + ["the"] * 6
VALUES = np.array([2.0] * 6 + [-2.0] * 6 + [0.0] * 6) + 0.01 * np.arange(18)


def test_the_words_of_both_ends_are_found_and_grammar_is_not() -> None:
    ends = distinguishing(word_table(TEXTS), VALUES)
    assert ends.high == ["evidence", "shows"]
    assert ends.low == ["neighbours", "tale"]
    assert (ends.high_length, ends.low_length) == (4.0, 5.0)


def test_turning_the_values_turns_the_ends() -> None:
    table = word_table(TEXTS)
    there, back = distinguishing(table, VALUES), distinguishing(table, -VALUES)
    assert (there.high, there.low) == (back.low, back.high)


def test_the_difference_of_means_is_in_standard_errors() -> None:
    """A word is shown from two standard errors on, by the plain formula."""
    values = np.array([1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    texts = ["cats"] * 3 + ["dogs"] * 5
    clearness = 1.0 / (values.std() * np.sqrt(1 / 3 + 1 / 5))
    assert clearness > 2.0
    assert distinguishing(word_table(texts), values).high == ["cats"]
    assert distinguishing(word_table(texts), np.array([1.0, 0, 0, 1, 0, 0, 1, 0])).high == []


def test_nothing_is_said_where_there_is_nothing_to_say() -> None:
    for texts, values in ((["one two"] * 3, np.zeros(3)), ([""] * 3, np.arange(3.0)), ([], np.zeros(0))):
        ends = distinguishing(word_table(texts), values)
        assert (ends.high, ends.low) == ([], [])


def test_case_and_accents_are_kept_apart_rightly() -> None:
    assert words_in("The Überraschung IS größer, isn't 3x") == {"überraschung", "größer"}
