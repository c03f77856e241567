"""A worker's own view: shown only after finishing, and only about their own judgements."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from django.http import HttpResponse
from django.test import Client

from annotation import services
from annotation.http.access import set_worker_cookie
from annotation.models import Item, Judgement, Project, Worker
from modelling.dashboards.workers.own_view import OwnChoices, own_view
from modelling.dashboards.workers.worker import WorkerAnswers
from modelling.models import ModelSnapshot
from modelling.updater.update import update_one
from tests.modelling.samples.two_camps import load_estimator
from tests.modelling.samples.two_camps import snapshot as snapshot

pytestmark = pytest.mark.django_db


@pytest.fixture
def worker(snapshot: ModelSnapshot) -> Worker:
    return Worker.objects.filter(project=snapshot.project, traits__camp="facts").first()


@pytest.fixture
def browser_of() -> Callable[[Worker], Client]:
    """A browser that carries this worker's cookie."""

    def client_of(worker: Worker) -> Client:
        client, response = Client(), HttpResponse()
        set_worker_cookie(response, worker)
        client.cookies.update(response.cookies)
        return client

    return client_of


def finish(worker: Worker) -> None:
    Worker.objects.filter(pk=worker.pk).update(state="finished")


def test_it_counts_judgements_that_agree_with_the_consensus(snapshot: ModelSnapshot, worker: Worker) -> None:
    model, stored = load_estimator(snapshot)
    consensus = dict(zip(stored["item_ids"].tolist(), model.predict_consensus(), strict=True))
    given = Judgement.objects.filter(worker=worker)
    sides = {"lo": 1.0, "hi": -1.0}
    decided = [each for each in given if each.choice in sides]
    agreed = sum(
        np.sign(consensus[each.item_lo_id] - consensus[each.item_hi_id]) == sides[each.choice] for each in decided
    )
    view = own_view(snapshot, worker)
    assert (view.judgements, view.decided, view.agreed) == (given.count(), len(decided), agreed)


def test_it_shows_the_words_of_the_workers_camp_that_they_have_read(snapshot: ModelSnapshot) -> None:
    for camp, words in (("facts", {"evidence", "numbers"}), ("stories", {"stories", "people"})):
        for worker in Worker.objects.filter(project=snapshot.project, traits__camp=camp):
            shown = {word for leaning in own_view(snapshot, worker).leanings for word in leaning.words}
            assert words <= shown


def test_a_finished_worker_gets_the_fragment_without_data_of_others(
    snapshot: ModelSnapshot, worker: Worker, browser_of: Callable[[Worker], Client]
) -> None:
    finish(worker)
    answer = browser_of(worker).get("/s/pets/own-view/")
    assert answer.status_code == 200
    assert "no-store" in answer["Cache-Control"]
    text = " ".join(answer.text.split())
    view = own_view(snapshot, worker)
    assert f"In {view.agreed} of {view.decided} answers" in text
    others = Worker.objects.exclude(pk=worker.pk).values_list("code", flat=True)
    assert not any(code in text for code in [*others, *Item.objects.values_list("key", flat=True)])
    assert "/s/pets/own-view/" in browser_of(worker).get("/s/pets/").text


def test_nothing_is_shown_before_the_end_or_with_too_few_judgements(
    snapshot: ModelSnapshot,
    project: Project,
    worker: Worker,
    browser_of: Callable[[Worker], Client],
    judge: Callable[..., object],
) -> None:
    assert browser_of(worker).get("/s/pets/own-view/").status_code == 202
    newcomer = services.enrol(project=project)
    for _ in range(3):
        judge(newcomer, "left")
    finish(newcomer)
    assert browser_of(newcomer).get("/s/pets/own-view/").status_code == 202
    version = update_one("test")
    assert own_view(version, newcomer) is None
    assert browser_of(newcomer).get("/s/pets/own-view/").status_code == 202


def test_ties_alone_show_nothing(snapshot: ModelSnapshot, worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    load = WorkerAnswers.load

    def only_ties(*args: Any) -> WorkerAnswers:
        answers = load(*args)
        rows = [(*row[:3], "tie", row[4]) for row in answers.rows]
        return replace(answers, rows=rows, y=np.full(len(rows), 0.5))

    monkeypatch.setattr(WorkerAnswers, "load", only_ties)
    assert own_view(snapshot, worker) is None


def test_a_preference_needs_the_workers_own_choices(
    snapshot: ModelSnapshot, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model still places the worker in their camp, but their choices are reversed."""
    load = OwnChoices.load
    assert own_view(snapshot, worker).leanings

    def reversed_choices(answers: WorkerAnswers) -> OwnChoices:
        choices = load(answers)
        return replace(choices, pairs=[(rejected, chosen) for chosen, rejected in choices.pairs])

    monkeypatch.setattr(OwnChoices, "load", reversed_choices)
    assert own_view(snapshot, worker).leanings == []


def test_a_preference_for_length_needs_more_than_chance() -> None:
    lengths = {1: 10, 2: 20}
    for shorter, longer, supported in ((10, 10, False), (14, 6, False), (16, 4, True), (0, 0, False)):
        choices = OwnChoices([(1, 2)] * shorter + [(2, 1)] * longer, {}, lengths)
        assert choices.support(lambda pk: -lengths[pk]) is supported


def test_the_first_workers_of_a_study_see_nothing(
    snapshot: ModelSnapshot, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    n_workers = Judgement.objects.values("worker").distinct().count()
    monkeypatch.setattr("modelling.dashboards.workers.own_view.MIN_OTHERS", n_workers)
    assert own_view(snapshot, worker) is None
    monkeypatch.setattr("modelling.dashboards.workers.own_view.MIN_OTHERS", n_workers - 1)
    assert own_view(snapshot, worker) is not None


def test_the_view_waits_for_the_version_with_the_last_answer(
    snapshot: ModelSnapshot, worker: Worker, judge: Callable[..., object], browser_of: Callable[[Worker], Client]
) -> None:
    Project.objects.update(judgements_per_worker=500)
    judge(Worker.objects.get(pk=worker.pk), "left")
    finish(worker)
    assert browser_of(worker).get("/s/pets/own-view/").status_code == 202
    assert own_view(update_one("test"), worker) is not None
    assert browser_of(worker).get("/s/pets/own-view/").status_code == 200


def test_the_researcher_can_switch_it_off(
    snapshot: ModelSnapshot, worker: Worker, browser_of: Callable[[Worker], Client]
) -> None:
    finish(worker)
    Project.objects.update(own_view_shown=False)
    assert browser_of(worker).get("/s/pets/own-view/").status_code == 404
    assert "own-view" not in browser_of(worker).get("/s/pets/").text
