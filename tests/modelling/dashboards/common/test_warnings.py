"""One sentence on every page when the results of the shown version are doubtful."""

from collections.abc import Callable

import pytest
from django.test import Client

from annotation.models import Project, User
from modelling.dashboards.common.warnings import describe_warnings, find_warnings
from modelling.models import ConsensusScore, ModelSnapshot, ScoreboardEntry
from tests.modelling.samples.studies import make_version

pytestmark = pytest.mark.django_db

Method = ScoreboardEntry.Method


@pytest.fixture
def version(project: Project) -> ModelSnapshot:
    """A version without warnings: 20 judgements of each item."""
    made = make_version(project, 1, diagnostics={"converged": True, "warnings": []})
    ConsensusScore.objects.filter(snapshot=made).update(judgements=20)
    return made


def score(version: ModelSnapshot, labels: int = 100, **mean_losses: float) -> None:
    ScoreboardEntry.objects.bulk_create(
        ScoreboardEntry(
            snapshot=version, method=method, labels=labels, decided=labels, correct=0, log_loss=labels * loss,
            brier=1.0, calibration=[[0, 0.0, 0.0]] * 10,
        )
        for method, loss in mean_losses.items()
    )  # fmt: skip


def codes(version: ModelSnapshot) -> list[str]:
    return [each.code for each in find_warnings(version)]


def test_a_sound_version_has_no_warning(version: ModelSnapshot) -> None:
    score(version, personal=0.5, consensus=0.5, bradley_terry=0.6)
    assert find_warnings(version) == []
    assert describe_warnings(version, []) == ""


def test_a_fit_that_did_not_settle_is_named(version: ModelSnapshot) -> None:
    version.diagnostics = {"converged": False, "warnings": ["The fit stopped."]}
    assert codes(version) == ["converged"]


@pytest.mark.parametrize(
    ("losses", "reason"),
    [
        ({"personal": 0.8, "consensus": 0.6}, "it predicts new judgements worse than chance"),
        ({"consensus": 0.6, "bradley_terry": 0.5}, "it predicts new judgements worse than Bradley-Terry"),
    ],
)
def test_predictions_worse_than_a_baseline_are_named(
    version: ModelSnapshot, losses: dict[str, float], reason: str
) -> None:
    score(version, **losses)
    assert [each.reason for each in find_warnings(version)] == [reason]


def test_a_few_scored_judgements_say_nothing(version: ModelSnapshot) -> None:
    score(version, labels=10, personal=2.0, consensus=2.0, bradley_terry=0.1)
    assert find_warnings(version) == []


def test_few_judgements_per_item_are_named(version: ModelSnapshot) -> None:
    ConsensusScore.objects.filter(snapshot=version).update(judgements=2)
    assert describe_warnings(version, find_warnings(version)) == (
        "Read version 1 with caution: there are only 2.0 judgements per item on average."
    )


def test_separate_parts_are_named(snapshot: ModelSnapshot) -> None:
    assert "parts" in codes(snapshot)


@pytest.mark.parametrize("page", ["ranking/", "components/", "workers/", "exports/"])
def test_pages_link_to_the_version(
    snapshot: ModelSnapshot, owner: User, log_in: Callable[[User], Client], page: str
) -> None:
    ConsensusScore.objects.filter(snapshot=snapshot).update(judgements=2)
    text = log_in(owner).get(f"/projects/pets/{page}").text
    assert "Read version 1 with caution:" in text
    assert text.count("About this version") == 1


def test_the_version_page_repeats_the_sentence(
    snapshot: ModelSnapshot, owner: User, log_in: Callable[[User], Client]
) -> None:
    where = f"/projects/pets/model/versions/{snapshot.number}/"
    assert "2 parts of the items were never compared with each other" in log_in(owner).get(where).text
