"""The scoreboard: summary, table and figures."""

from collections.abc import Callable

import numpy as np
import pytest
from django.test import Client

from annotation.models import Project, User
from modelling.dashboards.model.scoreboard import accuracy_summary, calibration_gap, scoreboard
from modelling.models import ModelSnapshot, ScoreboardEntry
from modelling.training.evaluation.scoreboard import sum_metrics
from tests.modelling.samples.studies import make_version

pytestmark = pytest.mark.django_db


@pytest.fixture
def three(project: Project) -> list[ModelSnapshot]:
    return [make_version(project, number) for number in (1, 2, 3)]


def scored(snapshot: ModelSnapshot, method: str, log_loss: float, correct: int = 6) -> None:
    counts = {"labels": 10, "decided": 8, "correct": correct}
    tenths = [[1, 0.5, 0.5]] * 10
    ScoreboardEntry.objects.create(
        snapshot=snapshot, method=method, log_loss=log_loss, brier=2.0, calibration=tenths, **counts
    )


@pytest.mark.parametrize(
    ("gains", "verdict"),
    [
        ([2.0, 1.8, 2.2, 2.1, 1.9], "modelling individual workers helps."),
        ([-0.5, -0.4, -0.6, -0.5, -0.5], "modelling individual workers does not help"),
        ([2.0, -1.9, 2.1, -2.0, 0.3], "modelling individual workers may or may not help"),
        ([2.0, 1.8, 2.2, 2.1], "There are too few new judgements to compare the methods."),
    ],
)
def test_the_summary_says_whether_the_personal_model_helps_only_if_it_is_clear(
    project: Project, owner: User, log_in: Callable[[User], Client], gains: list[float], verdict: str
) -> None:
    for number, gain in enumerate(gains, 2):
        version = make_version(project, number)
        scored(version, "personal", 6.0 - gain)
        scored(version, "gppl", 6.0, correct=4)
    board = scoreboard(project, upto=9)
    assert {row.judgements for row in board.rows} == {10 * len(gains)}
    assert {row.percent_right for row in board.rows} == {75.0, 50.0}
    text = log_in(owner).get("/projects/pets/model/").text
    assert f"The personal model predicted 75.0 % of {8 * len(gains)} new judgements correctly (95 % interval " in text
    assert verdict in text
    assert ('<span class="badge">best</span>' in text) == ("too few" not in verdict)


def test_summary_and_table_round_the_same_way(
    project: Project, owner: User, three, log_in: Callable[[User], Client]
) -> None:
    for method in ("personal", "consensus"):
        scored(three[1], method, 4.0)
    ScoreboardEntry.objects.filter(method="personal").update(labels=66, decided=59, correct=29)  # 49.15 %
    ScoreboardEntry.objects.filter(method="consensus").update(labels=66, decided=59, correct=30)  # 50.85 %
    text = log_in(owner).get("/projects/pets/model/").text
    assert "predicted 49.2 % of 59 new" in text
    assert text.count("49.2 %") == 2
    assert accuracy_summary(project, 3) == (
        "Of 59 new judgements, the personal model predicted 49 % (37–62 %) correctly and the consensus 51 % (38–63 %), "
        "with 95% intervals in brackets."
    )


def test_the_scoreboard_stops_at_the_shown_version(project: Project, owner: User, three) -> None:
    scored(three[1], "personal", 4.0)
    scored(three[2], "personal", 4.0)
    assert scoreboard(project, upto=2).rows[0].judgements == 10
    assert scoreboard(project, upto=1) is None


def test_accuracy_is_undefined_if_all_judgements_are_ties(project: Project, three) -> None:
    scored(three[1], "personal", 4.0)
    ScoreboardEntry.objects.update(decided=0, correct=0)
    board = scoreboard(project, upto=3)
    assert board.rows[0].percent_right is None
    assert "are ties" in board.summary


def test_the_figures_have_running_losses_and_calibration_bins(
    project: Project, owner: User, three, log_in: Callable[[User], Client]
) -> None:
    for snapshot, loss in zip(three[1:], (4.0, 8.0), strict=True):
        scored(snapshot, "personal", loss)
    losses, calibration = scoreboard(project, upto=3).figures
    assert losses.table.rows == [[2, 0.4], [3, 0.6]]
    assert losses.traces[0]["y"] == [0.4, 0.6]
    assert calibration.table.rows == [["crowdGPPL, each worker's own preferences", 0.5, 0.5, 2]] * 10
    client = log_in(owner)
    assert "Calibration" in client.get("/projects/pets/model/").text
    assert client.get("/projects/pets/model/?csv=losses").text.splitlines()[1:] == ["2,0.4", "3,0.6"]


def test_an_overconfident_method_has_a_large_calibration_gap() -> None:
    sure = sum_metrics(np.full(10, 0.95), np.array([1.0, 0.0] * 5))
    assert calibration_gap(sure) == pytest.approx(0.45)
    assert calibration_gap(sum_metrics(np.full(10, 0.5), np.array([1.0, 0.0] * 5))) == pytest.approx(0.0)


def test_the_progress_page_shows_the_accuracy_of_personal_model_and_consensus(
    project: Project, owner: User, three, log_in: Callable[[User], Client]
) -> None:
    assert "correctly" not in log_in(owner).get("/projects/pets/activity/").text
    scored(three[1], "personal", 4.0, correct=6)
    scored(three[1], "consensus", 5.0, correct=4)
    assert "correctly" not in log_in(owner).get("/projects/pets/activity/").text, "8 judgements say nothing"
    ScoreboardEntry.objects.update(labels=80, decided=80)
    ScoreboardEntry.objects.filter(method="personal").update(correct=60)
    summary = (
        "Of 80 new judgements, the personal model predicted 75 % (65–83 %) correctly and the consensus 5 % (2–12 %)"
    )
    assert summary in log_in(owner).get("/projects/pets/activity/").text
