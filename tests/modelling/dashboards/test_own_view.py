"""What a worker is told about themselves: only when they have finished, only about themselves."""

from collections.abc import Callable

import numpy as np
import pytest
from django.http import HttpResponse
from django.test import Client

from annotation import services
from annotation.access import remember_worker
from annotation.models import Item, Judgement, Project, Worker
from modelling.dashboards.own_view import own_view
from modelling.models import ModelSnapshot
from modelling.updating import run_one
from tests.modelling.two_camps import estimator_of, fitted_study

pytestmark = pytest.mark.django_db


@pytest.fixture
def snapshot(project: Project) -> ModelSnapshot:
    return fitted_study(project)


@pytest.fixture
def somebody(snapshot: ModelSnapshot) -> Worker:
    return Worker.objects.filter(project=snapshot.project, traits__camp="facts").first()


@pytest.fixture
def browser_of() -> Callable[[Worker], Client]:
    """A browser that carries this worker's cookie."""

    def client_of(worker: Worker) -> Client:
        client, response = Client(), HttpResponse()
        remember_worker(response, worker)
        client.cookies.update(response.cookies)
        return client

    return client_of


def finish(worker: Worker) -> None:
    Worker.objects.filter(pk=worker.pk).update(state="finished")


def test_it_counts_the_answers_that_the_consensus_expects(snapshot: ModelSnapshot, somebody: Worker) -> None:
    model, stored = estimator_of(snapshot)
    consensus = dict(zip(stored["item_ids"].tolist(), model.predict_consensus(), strict=True))
    given = Judgement.objects.filter(worker=somebody)
    sides = {"lo": 1.0, "hi": -1.0}
    decided = [each for each in given if each.choice in sides]
    agreed = sum(
        np.sign(consensus[each.item_lo_id] - consensus[each.item_hi_id]) == sides[each.choice] for each in decided
    )
    view = own_view(snapshot, somebody)
    assert (view.answers, view.decided, view.agreed) == (given.count(), len(decided), agreed)


def test_it_says_what_a_camp_values_in_words_the_worker_has_read(snapshot: ModelSnapshot) -> None:
    for camp, words in (("facts", {"evidence", "numbers"}), ("stories", {"stories", "people"})):
        for worker in Worker.objects.filter(project=snapshot.project, traits__camp=camp):
            said = {word for leaning in own_view(snapshot, worker).leanings for word in leaning.words}
            assert words <= said


def test_a_finished_worker_gets_the_fragment_and_nobodys_else_data(
    snapshot: ModelSnapshot, somebody: Worker, browser_of: Callable[[Worker], Client]
) -> None:
    finish(somebody)
    answer = browser_of(somebody).get("/s/pets/own-view/")
    assert answer.status_code == 200
    assert "no-store" in answer["Cache-Control"]
    text = " ".join(answer.text.split())
    view = own_view(snapshot, somebody)
    assert f"In {view.agreed} of {view.decided} answers" in text
    others = Worker.objects.exclude(pk=somebody.pk).values_list("code", flat=True)
    assert not any(code in text for code in [*others, *Item.objects.values_list("key", flat=True)])
    assert "/s/pets/own-view/" in browser_of(somebody).get("/s/pets/").text


def test_nothing_is_said_before_the_end_or_of_too_few_answers(
    snapshot: ModelSnapshot,
    project: Project,
    somebody: Worker,
    browser_of: Callable[[Worker], Client],
    judge: Callable[..., object],
) -> None:
    assert browser_of(somebody).get("/s/pets/own-view/").status_code == 202
    newcomer = services.enrol(project=project)
    for _ in range(3):
        judge(newcomer, "left")
    finish(newcomer)
    assert browser_of(newcomer).get("/s/pets/own-view/").status_code == 202
    version = run_one("test")
    assert own_view(version, newcomer) is None
    assert browser_of(newcomer).get("/s/pets/own-view/").status_code == 202
