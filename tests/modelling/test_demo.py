"""The demo: its texts, its simulated crowd, what the model learns from them, and the command that loads it."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from modelling.demo.crowd import (
    AXES,
    OPINIONS,
    QUESTIONS,
    Argument,
    DemoCrowd,
    Truth,
    draw_demo_crowd,
    read_arguments,
    read_truth,
)

SEED = 20


@pytest.fixture(scope="module")
def arguments() -> tuple[Argument, ...]:
    return read_arguments()


@pytest.fixture(scope="module")
def truth(arguments: tuple[Argument, ...]) -> Truth:
    return read_truth(arguments)


@pytest.fixture(scope="module")
def crowd(arguments: tuple[Argument, ...], truth: Truth) -> DemoCrowd:
    return draw_demo_crowd(np.random.default_rng(SEED), arguments, truth)


def test_there_are_at_least_three_debates_of_twenty_four_arguments(arguments: tuple[Argument, ...]) -> None:
    sizes = Counter(argument.group for argument in arguments)
    assert len(sizes) >= 3
    assert min(sizes.values()) >= 24


def test_no_key_and_no_text_is_used_twice(arguments: tuple[Argument, ...]) -> None:
    assert len({argument.key for argument in arguments}) == len(arguments)
    assert len({argument.text.casefold() for argument in arguments}) == len(arguments)


def test_texts_differ_in_length_and_style(arguments: tuple[Argument, ...]) -> None:
    words = [len(argument.text.split()) for argument in arguments]
    assert 8 <= min(words) <= 10
    assert 100 <= max(words) <= 110
    assert len({argument.style for argument in arguments}) >= 8


def test_the_truth_covers_every_argument(arguments: tuple[Argument, ...], truth: Truth) -> None:
    assert truth.quality.shape == (len(arguments),)
    assert truth.leanings.shape == (len(arguments), len(AXES))
    assert np.abs(truth.quality).max() <= 2
    assert np.abs(truth.leanings).max() <= 1


def test_the_longer_texts_are_marked_as_longer(arguments: tuple[Argument, ...], truth: Truth) -> None:
    words = np.array([len(argument.text.split()) for argument in arguments])
    assert np.all(np.diff(truth.leanings[np.argsort(words), AXES.index("long_vs_short")]) >= 0)


def test_sixty_workers_in_three_opinion_groups_give_2500_judgements(crowd: DemoCrowd) -> None:
    assert len(crowd.names) == len(set(crowd.names)) >= 60
    assert set(crowd.opinions) == {0, 1, 2}
    assert len(crowd.labels) >= 2500


def test_workers_judge_a_pair_once_and_within_a_debate(crowd: DemoCrowd, arguments: tuple[Argument, ...]) -> None:
    labels = crowd.labels
    low, high = np.minimum(labels.a, labels.b), np.maximum(labels.a, labels.b)
    assert np.all(low < high)
    assert len(set(zip(labels.u, low, high, strict=True))) == len(labels)
    assert all(arguments[a].group == arguments[b].group for a, b in zip(labels.a, labels.b, strict=True))


def test_workers_differ_in_how_much_they_judge(crowd: DemoCrowd) -> None:
    counts = np.bincount(crowd.labels.u, minlength=len(crowd.names))
    assert counts.min() == 8
    assert counts.max() == 80
    assert 35 <= np.median(counts) <= 45


def test_some_answers_are_ties(crowd: DemoCrowd) -> None:
    assert set(crowd.labels.y) == {0.0, 0.5, 1.0}
    assert 0.03 < np.mean(crowd.labels.y == 0.5) < 0.09


def test_the_same_seed_draws_the_same_crowd(crowd: DemoCrowd, arguments: tuple[Argument, ...], truth: Truth) -> None:
    again = draw_demo_crowd(np.random.default_rng(SEED), arguments, truth)
    other = draw_demo_crowd(np.random.default_rng(SEED + 1), arguments, truth)
    for name in ("u", "a", "b", "y"):
        np.testing.assert_array_equal(getattr(again.labels, name), getattr(crowd.labels, name))
    assert again.traits == crowd.traits
    assert other.traits != crowd.traits


def test_the_tastes_of_the_groups_cancel_out() -> None:
    np.testing.assert_allclose(np.sum(list(OPINIONS.values()), axis=0), 0, atol=1e-12)


def test_answers_to_the_questionnaire_say_something_about_opinions(crowd: DemoCrowd) -> None:
    """Guessing the opinion group from the traits, by their odds, is right more often than one time in three."""
    guesses = [int(np.argmax(_odds_of_opinions(traits))) for traits in crowd.traits]
    assert np.mean(guesses == crowd.opinions) > 0.5


def _odds_of_opinions(traits: dict[str, str]) -> np.ndarray:
    odds = [np.array(question.odds)[:, question.choices.index(traits[question.name])] for question in QUESTIONS]
    return np.prod(odds, axis=0)
