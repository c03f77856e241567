"""Foretold, then learned: the scoreboard in words, in a table and in pictures."""

from collections.abc import Callable

import numpy as np
import pytest
from django.test import Client

from annotation.models import Project, User
from modelling.dashboards.foretold import in_one_line, scoreboard
from modelling.dashboards.foretold_pictures import calibration_gap
from modelling.models import ModelSnapshot, ScoreboardEntry
from modelling.scoreboard import score
from tests.modelling.studies import make_version

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
    ("personal", "said"),
    [
        (4.0, "knowing each person helps."),
        (6.5, "knowing each person does not help"),
        (6.001, "knowing each person helps little"),
    ],
)
def test_the_scoreboard_says_whether_the_personal_model_earns_its_keep(
    project: Project, owner: User, three, log_in: Callable[[User], Client], personal: float, said: str
) -> None:
    for snapshot in three[1:]:
        scored(snapshot, "personal", personal)
        scored(snapshot, "gppl", 6.0, correct=4)
    board = scoreboard(project, upto=3)
    assert {row.labels for row in board.rows} == {20}
    assert {row.percent_right for row in board.rows} == {75.0, 50.0}
    text = log_in(owner).get("/projects/pets/model/").text
    assert "The personal model foretold 75.0 % of 16 new decided judgements right." in text
    assert said in text


def test_words_and_table_round_alike(project: Project, owner: User, three, log_in: Callable[[User], Client]) -> None:
    for method in ("personal", "consensus"):
        scored(three[1], method, 4.0)
    ScoreboardEntry.objects.filter(method="personal").update(labels=66, decided=59, correct=29)  # 49.15 %
    ScoreboardEntry.objects.filter(method="consensus").update(labels=66, decided=59, correct=30)  # 50.85 %
    text = log_in(owner).get("/projects/pets/model/").text
    assert "foretold 49.2 % of 59 new decided" in text
    assert text.count("49.2 %") == 2
    assert in_one_line(project, 3) == "The personal model foretold 49 % of new answers, the consensus 51 %."


def test_the_scoreboard_stops_at_the_version_that_is_shown(project: Project, owner: User, three) -> None:
    scored(three[1], "personal", 4.0)
    scored(three[2], "personal", 4.0)
    assert scoreboard(project, upto=2).rows[0].labels == 10
    assert scoreboard(project, upto=1) is None


def test_where_all_were_ties_nothing_is_right_or_wrong(project: Project, three) -> None:
    scored(three[1], "personal", 4.0)
    ScoreboardEntry.objects.update(decided=0, correct=0)
    board = scoreboard(project, upto=3)
    assert board.rows[0].percent_right is None
    assert "Only ties so far" in board.summary


def test_the_pictures_of_the_scoreboard_hold_its_running_losses_and_its_tenths(
    project: Project, owner: User, three, log_in: Callable[[User], Client]
) -> None:
    for snapshot, loss in zip(three[1:], (4.0, 8.0), strict=True):
        scored(snapshot, "personal", loss)
    losses, calibration = scoreboard(project, upto=3).pictures
    assert losses.table.rows == [[2, 0.4], [3, 0.6]]
    assert losses.traces[0]["y"] == [0.4, 0.6]
    assert calibration.table.rows == [["crowdGPPL, each worker's own preferences", 0.5, 0.5, 2]] * 10
    client = log_in(owner)
    assert "Do the probabilities come true?" in client.get("/projects/pets/model/").text
    assert client.get("/projects/pets/model/?csv=losses").text.splitlines()[1:] == ["2,0.4", "3,0.6"]


def test_a_method_that_is_always_sure_and_half_wrong_is_far_from_calibrated() -> None:
    sure = score(np.full(10, 0.95), np.array([1.0, 0.0] * 5))
    assert calibration_gap(sure) == pytest.approx(0.45)
    assert calibration_gap(score(np.full(10, 0.5), np.array([1.0, 0.0] * 5))) == pytest.approx(0.0)


def test_the_overview_says_in_one_line_what_the_personal_model_and_the_consensus_foretold(
    project: Project, owner: User, three, log_in: Callable[[User], Client]
) -> None:
    assert "foretold" not in log_in(owner).get("/projects/pets/activity/").text
    scored(three[1], "personal", 4.0, correct=6)
    scored(three[1], "consensus", 5.0, correct=4)
    told = "The personal model foretold 75 % of new answers, the consensus 50 %."
    assert told in log_in(owner).get("/projects/pets/activity/").text
