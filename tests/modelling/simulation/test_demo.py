"""The demo: its texts, its simulated crowd, the model fitted to it, and the command that loads it."""

from __future__ import annotations

import stat
from collections import Counter
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from django.core.management import call_command
from django.db import connection
from pytest_django.fixtures import Settings
from scipy.stats import kendalltau

from annotation.forms.question_rules import format_questionnaire, parse_questionnaire
from annotation.models import (
    AuditEntry,
    Item,
    Judgement,
    Membership,
    PlatformIdentity,
    Project,
    User,
    Worker,
)
from annotation.storage import event_log
from modelling.crowdgppl import CrowdGPPL, PairwiseLabels
from modelling.models import ConsensusScore, ModelSnapshot
from modelling.simulation.demo_crowd import (
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
from modelling.simulation.demo_login import get_or_create_login, password_file
from modelling.simulation.demo_study import SEED, SLUG, load_demo
from modelling.training.fit import ModelSettings, fit
from modelling.training.inputs import Inputs
from tests.annotation.variety import find_repetitions, judge_all


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


def test_the_ground_truth_covers_every_argument(arguments: tuple[Argument, ...], truth: Truth) -> None:
    assert truth.quality.shape == (len(arguments),)
    assert truth.positions.shape == (len(arguments), len(AXES))
    assert np.abs(truth.quality).max() <= 2
    assert np.abs(truth.positions).max() <= 1


def test_longer_texts_have_a_higher_length_score(arguments: tuple[Argument, ...], truth: Truth) -> None:
    words = np.array([len(argument.text.split()) for argument in arguments])
    assert np.all(np.diff(truth.positions[np.argsort(words), AXES.index("long_vs_short")]) >= 0)


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


def test_questionnaire_answers_correlate_with_opinions(crowd: DemoCrowd) -> None:
    """Predicting the opinion group from the traits is better than chance (one in three)."""
    guesses = [int(np.argmax(_opinion_probabilities(traits))) for traits in crowd.traits]
    assert np.mean(guesses == crowd.opinions) > 0.5


def _opinion_probabilities(traits: dict[str, str]) -> np.ndarray:
    probabilities = [
        np.array(question.probabilities)[:, question.choices.index(traits[question.name])] for question in QUESTIONS
    ]
    return np.prod(probabilities, axis=0)


# The model, fitted without 10% of the judgements ---------------------------------------------------------


@dataclass(frozen=True)
class HeldOutFit:
    """A model fitted to 90 % of the judgements, and the held-out judgements that are not ties."""

    model: CrowdGPPL
    withheld: PairwiseLabels


@pytest.fixture(scope="module")
def held_out_fit(crowd: DemoCrowd, arguments: tuple[Argument, ...]) -> HeldOutFit:
    """Fit the model as the updater does."""
    tenth = np.random.default_rng(0).permutation(len(crowd.labels)) < len(crowd.labels) // 10
    items = [Item(key=argument.key, text=argument.text) for argument in arguments]
    workers = [Worker(code=name) for name in crowd.names]
    labels = _some(crowd, ~tenth)
    seen = Inputs.from_labels(items, workers, labels)
    model, *_ = fit(seen, ModelSettings())
    return HeldOutFit(model=model, withheld=_some(crowd, tenth & (crowd.labels.y != 0.5)))


def _some(crowd: DemoCrowd, chosen: np.ndarray) -> PairwiseLabels:
    labels = crowd.labels
    return PairwiseLabels(u=labels.u[chosen], a=labels.a[chosen], b=labels.b[chosen], y=labels.y[chosen])


@pytest.mark.slow
def test_personal_predictions_are_more_accurate_than_the_consensus_alone(held_out_fit: HeldOutFit) -> None:
    withheld = held_out_fit.withheld
    personal = held_out_fit.model.predict_proba(withheld.u, withheld.a, withheld.b)
    consensus = held_out_fit.model.predict_consensus_proba(withheld.a, withheld.b, kind="typical")
    assert _accuracy(personal, withheld.y) > _accuracy(consensus, withheld.y) > 0.6
    assert _log_loss(personal, withheld.y) < _log_loss(consensus, withheld.y)


@pytest.mark.slow
def test_the_consensus_ranking_agrees_with_the_ground_truth(held_out_fit: HeldOutFit, crowd: DemoCrowd) -> None:
    """Kendall's tau over all arguments of the four debates together."""
    tau, _ = kendalltau(held_out_fit.model.predict_consensus(), crowd.consensus)
    assert tau >= 0.6


@pytest.mark.slow
def test_the_ranking_agrees_with_the_ground_truth_within_each_debate(
    held_out_fit: HeldOutFit, crowd: DemoCrowd, arguments: tuple[Argument, ...]
) -> None:
    predicted = held_out_fit.model.predict_consensus()
    groups = np.array([argument.group for argument in arguments])
    taus = [kendalltau(predicted[groups == group], crowd.consensus[groups == group])[0] for group in set(groups)]
    assert np.mean(taus) >= 0.6


@pytest.mark.slow
@pytest.mark.parametrize(("u", "a", "b"), [(0, 3, 14), (30, 60, 71), (71, 105, 80)])
def test_one_judgement_for_b_lowers_a(held_out_fit: HeldOutFit, u: int, a: int, b: int) -> None:
    before = held_out_fit.model.predict_consensus()
    model = CrowdGPPL.from_state(held_out_fit.model.to_state())
    after = model.partial_fit(PairwiseLabels(u=[u], a=[a], b=[b], y=[0.0])).predict_consensus()
    assert after[a] < before[a]
    assert after[b] > before[b]


def _accuracy(probability: np.ndarray, y: np.ndarray) -> float:
    return float(np.mean((probability > 0.5) == (y > 0.5)))


def _log_loss(probability: np.ndarray, y: np.ndarray) -> float:
    return float(-np.mean(np.log(np.where(y > 0.5, probability, 1 - probability))))


# The command ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def data_folder(settings: Settings, tmp_path: Path) -> Path:
    settings.DATA_DIR = tmp_path / "data"
    return tmp_path / "data"


@pytest.fixture
def demo(db: None, data_folder: Path) -> Project:
    return load_demo(get_or_create_login().user)


def run_demo() -> str:
    out = StringIO()
    call_command("demo", stdout=out)
    return out.getvalue()


@pytest.mark.slow
@pytest.mark.django_db
def test_running_the_command_twice_adds_nothing(data_folder: Path) -> None:
    first, rows = run_demo(), _rows()
    second = run_demo()
    assert _rows() == rows
    assert rows["ModelSnapshot"] == 1
    assert "Loaded in" in first
    assert "Version 1 includes" in first
    assert "is already loaded" in second
    assert "Loaded in" not in second
    password = password_file().read_text()
    assert password in first
    assert password in second


def _rows() -> dict[str, int]:
    tables = (Project, Item, Worker, PlatformIdentity, Judgement, User, Membership, AuditEntry)
    return {table.__name__: table._default_manager.count() for table in (*tables, ModelSnapshot, ConsensusScore)}


def test_ten_first_visitors_meet_varied_arguments(demo: Project) -> None:
    for seed in range(10):
        shown = judge_all(demo, seed)
        assert len(shown) == demo.judgements_per_worker
        assert find_repetitions(shown) == []


def test_the_study_is_open_and_marked_as_simulated_without_the_ground_truth(demo: Project) -> None:
    assert (demo.slug, demo.state, demo.simulated, demo.ties_allowed) == (SLUG, Project.State.OPEN, True, True)
    assert set(demo.judgements.values_list("source", flat=True)) == {Judgement.Source.SIMULATED}
    assert parse_questionnaire(format_questionnaire(demo.questionnaire)) == demo.questionnaire
    assert {name for item in demo.items.all() for name in (*item.metadata, *item.features)} == {"style"}


def test_the_stored_judgements_are_those_of_the_crowd(
    demo: Project, crowd: DemoCrowd, arguments: tuple[Argument, ...]
) -> None:
    """Compare the first judgements by the sides that were shown."""
    stored = demo.judgements.select_related("worker__identity", "item_lo", "item_hi").order_by("sequence")
    assert len(stored) == len(crowd.labels)
    for position, row in enumerate(stored[:200]):
        left, right = (row.item_lo, row.item_hi) if row.lo_was_left else (row.item_hi, row.item_lo)
        preferred = {"lo": row.item_lo, "hi": row.item_hi, "tie": None}[row.choice]
        u, a, b = crowd.labels.u[position], crowd.labels.a[position], crowd.labels.b[position]
        assert row.worker.identity.external_id == crowd.names[u]
        assert row.worker.traits == crowd.traits[u]
        assert (left.key, right.key) == (arguments[a].key, arguments[b].key)
        assert {1.0: left, 0.0: right, 0.5: None}[float(crowd.labels.y[position])] == preferred


def test_verify_finds_a_changed_judgement_of_the_demo(demo: Project) -> None:
    call_command("verify", SLUG, stdout=StringIO())
    victim = demo.judgements.filter(choice="lo")[1000]
    event_log.drop_triggers(connection)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE annotation_judgement SET choice = 'hi' WHERE id = %s", [victim.pk])
    event_log.create_triggers(connection)
    out = StringIO()
    with pytest.raises(SystemExit, match="1"):
        call_command("verify", SLUG, stdout=out)
    assert f"judgement {victim.pk} (sequence {victim.sequence})" in out.getvalue()


@pytest.mark.django_db
def test_the_password_is_generated_and_stored_privately(data_folder: Path) -> None:
    login = get_or_create_login()
    assert login.password is not None
    assert login.user.check_password(login.password)
    assert stat.S_IMODE(password_file().stat().st_mode) == 0o600
    assert get_or_create_login().password == login.password
    password_file().unlink()
    login.user.delete()
    assert get_or_create_login().password != login.password


@pytest.mark.django_db
def test_a_password_that_was_changed_is_not_shown(data_folder: Path) -> None:
    user = get_or_create_login().user
    user.set_password("a password of my own")
    user.save()
    login = get_or_create_login()
    assert login.password is None
    assert "a password of my own" not in repr(login)
