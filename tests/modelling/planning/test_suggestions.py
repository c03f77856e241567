"""Suggestions as rows: written after each update, for the study's purpose, and measured by the next version."""

import uuid
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from random import Random

import numpy as np
import pytest
from django.test import Client

from annotation import services
from annotation.models import Assignment, Item, Judgement, Project, Suggestion, User, Worker
from annotation.services import Receipt, lease_pairs
from annotation.services.participation.quotas import renew_quotas
from modelling.models import ModelSnapshot
from modelling.planning import suggestions
from modelling.planning.reading_time import ReadingTime, reading_time
from modelling.training.snapshots import FittedModel, read_fitted_model
from modelling.updater.update import update_one
from tests.conftest import make_items
from tests.modelling.samples.cached_fits import cached_fits as cached_fits

pytestmark = pytest.mark.django_db
Judge = Callable[..., Receipt]


@pytest.fixture
def snapshot(project: Project, crowd: list[Worker]) -> ModelSnapshot:
    Project.objects.update(redundancy=10)
    return update()


def update() -> ModelSnapshot:
    version = update_one("test")
    assert version is not None
    return version


@pytest.mark.both_databases
def test_an_update_writes_pairs_of_the_same_group(snapshot: ModelSnapshot) -> None:
    rows = Suggestion.objects.select_related("item_lo", "item_hi")
    assert {row.item_lo.group for row in rows} == {"cats", "dogs"}
    for row in rows:
        assert row.item_lo.group == row.item_hi.group
        assert row.worker is None
        assert row.gain > 0
    assert max(row.gain for row in rows) > 1, "the best pair is worth more than a random one"


def test_any_two_items_are_suggested_where_any_are_paired(project: Project, crowd: list[Worker]) -> None:
    Project.objects.update(pairs=Project.Pairs.ANY)
    update()
    assert any(row.item_lo.group != row.item_hi.group for row in Suggestion.objects.all())


def test_pairs_without_a_free_slot_are_not_suggested(project: Project, crowd: list[Worker]) -> None:
    Project.objects.update(redundancy=1)
    update()
    issued = set(Assignment.objects.values_list("item_lo", "item_hi"))
    assert not issued & set(Suggestion.objects.values_list("item_lo", "item_hi"))


def test_a_study_without_suggestions_keeps_those_of_the_api(project: Project, crowd: list[Worker]) -> None:
    Project.objects.update(suggestions=Project.Suggestions.NONE)
    lo, hi = Item.objects.filter(group="dogs")[:2]
    services.replace_suggestions(
        project=project, user=None, suggestions=[Suggestion(project=project, item_lo=lo, item_hi=hi, gain=1.0)]
    )
    update()
    assert list(Suggestion.objects.values_list("item_lo", "item_hi")) == [(lo.pk, hi.pk)]


def test_workers_who_judge_now_get_suggestions_of_their_own(
    project: Project, crowd: list[Worker], judge: Judge
) -> None:
    Project.objects.update(suggestions=Project.Suggestions.PERSONAL)
    away = crowd[0]
    Assignment.objects.filter(worker=away, closed_at=None).delete()
    update()
    counts = Counter(Suggestion.objects.values_list("worker", flat=True))
    assert set(counts) == {None, crowd[1].pk, crowd[2].pk}


def test_a_failure_leaves_the_version_and_the_old_suggestions(
    snapshot: ModelSnapshot, crowd: list[Worker], judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = set(Suggestion.objects.values_list("pk", flat=True))
    monkeypatch.setattr(suggestions, "suggest_pairs", lambda *args: 1 / 0)
    judge(crowd[0])
    assert update().number == snapshot.number + 1
    assert set(Suggestion.objects.values_list("pk", flat=True)) == before


def test_an_older_version_does_not_replace_the_suggestions_of_a_newer_one(
    snapshot: ModelSnapshot, crowd: list[Worker], judge: Judge
) -> None:
    older = fitted_model(snapshot)
    judge(crowd[0])
    update()
    newer = set(Suggestion.objects.values_list("pk", flat=True))
    suggestions.refresh_suggestions(snapshot, older)
    assert set(Suggestion.objects.values_list("pk", flat=True)) == newer


def fitted_model(snapshot: ModelSnapshot) -> FittedModel:
    return read_fitted_model(snapshot.project, snapshot.checksum, snapshot.number)


def test_the_next_version_measures_suggested_and_random_pairs(project: Project, crowd: list[Worker]) -> None:
    make_items(project, [f"Birds sing, reason {n}." for n in range(12)], "birds")
    Project.objects.update(random_share=50)
    update()
    worker = services.enrol(project=Project.objects.get(pk=project.pk))
    judge_slowly(worker, 12, lambda pair: 4000)
    measured = update().diagnostics["pairing"]
    answered = Counter(Judgement.objects.filter(worker=worker).values_list("assignment__policy", flat=True))
    assert {policy: sums["n"] for policy, sums in measured.items()} == answered
    assert set(answered) == {"suggested", "random"}
    for sums in measured.values():
        assert 0 < sums["bits"] < sums["n"]
        assert sums["seconds"] == pytest.approx(4.0 * sums["n"])


def judge_slowly(worker: Worker, count: int, milliseconds: Callable[[Assignment], int]) -> None:
    """Answer this many pairs that were leased minutes ago."""
    rng = Random(5)
    for _ in range(count):
        pair = lease_pairs(worker=worker, rng=rng)[0]
        Assignment.objects.filter(pk=pair.pk).update(issued_at=pair.issued_at - timedelta(minutes=5))
        services.record_judgement(
            worker=worker,
            uuid=uuid.uuid4(),
            assignment=pair.public_id,
            choice="left",
            response_ms=milliseconds(pair),
        )


def test_reading_time_is_learned_from_the_response_times(project: Project, worker: Worker) -> None:
    assert reading_time(project) == ReadingTime(), "an assumption, as long as there are few"
    make_items(project, [f"Birds {'sing ' * n}" for n in range(2, 40)], "birds")
    Project.objects.update(judgements_per_worker=100)
    renew_quotas(Project.objects.get())
    worker.refresh_from_db()
    judge_slowly(worker, 60, lambda pair: 3000 + 20 * (len(pair.item_lo.text) + len(pair.item_hi.text)))
    found = reading_time(project)
    assert found.n == 60
    assert (found.base, found.per_character) == pytest.approx((3.0, 0.02), rel=0.05)
    np.testing.assert_allclose(found.per_item(np.array([100.0])) * 2, [3.0 + 0.02 * 200], rtol=0.05)


def test_the_page_shows_purpose_pairs_and_what_was_measured(
    snapshot: ModelSnapshot, crowd: list[Worker], judge: Judge, owner: User, log_in: Callable[[User], Client]
) -> None:
    for worker in crowd:
        judge(worker)
    update()
    text = log_in(owner).get("/projects/pets/suggestions/").text
    assert "for the consensus order of all items" in text
    assert "20 % of the pairs are random" in text
    best = Suggestion.objects.order_by("issued", "-gain").first()
    assert best is not None
    assert best.item_lo.key in text
    assert "least judged pairs" in text or "suggested pairs" in text


def test_the_page_says_how_to_switch_suggestions_on(
    project: Project, owner: User, log_in: Callable[[User], Client]
) -> None:
    Project.objects.update(suggestions=Project.Suggestions.NONE)
    assert "The model suggests no pairs" in log_in(owner).get("/projects/pets/suggestions/").text
    Project.objects.update(suggestions=Project.Suggestions.TOP)
    assert "No suggestions yet" in log_in(owner).get("/projects/pets/suggestions/").text
