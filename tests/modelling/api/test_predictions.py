"""Predictions and rankings by the API: the same numbers as the estimator's own, of one version."""

import shutil
from typing import Any

import numpy as np
import pytest
from django.conf import settings
from django.test import Client

from annotation import services
from annotation.models import Item, Project, Suggestion, Worker
from modelling import snapshots
from modelling.models import ConsensusScore, ModelSnapshot
from tests.modelling.studies import make_version
from tests.modelling.two_camps import estimator_of, fitted_study

pytestmark = pytest.mark.django_db
PETS = "/api/v1/projects/pets"
TOLERANCE = 1e-12  # the same arrays by two ways of reading them


@pytest.fixture
def snapshot(project: Project) -> ModelSnapshot:
    return fitted_study(project, n_items=9, n_workers=6, n_labels=120)


def predict(client: Client, **questions: Any) -> Any:
    return client.post(f"{PETS}/predict", questions, content_type="application/json")


def test_pairs_and_likings_are_what_the_estimator_says(olga: Client, project: Project, snapshot: ModelSnapshot) -> None:
    model, stored = estimator_of(snapshot)
    worker = Worker.objects.get(pk=int(stored["worker_ids"][0]))
    place = {int(pk): at for at, pk in enumerate(stored["item_ids"])}
    a, b = (Item.objects.get(project=project, key=key) for key in ("text-000", "text-001"))
    i, j = place[a.pk], place[b.pk]
    told = predict(
        olga,
        pairs=[{"a": a.key, "b": b.key}, {"a": a.key, "b": b.key, "worker": worker.code}],
        likings=[{"worker": worker.code, "item": b.key}],
    ).json()
    typical, own = told["pairs"]
    assert typical["probability"] == pytest.approx(float(model.predict_consensus_proba([i], [j])[0]), abs=TOLERANCE)
    assert own["probability"] == pytest.approx(float(model.predict_proba([0], [i], [j])[0]), abs=TOLERANCE)
    assert (typical["personal"], own["personal"]) == (False, True)
    ranked = stored["ranked"]
    mean, sd = model.predict_utilities(users=np.array([0]), items=np.array([j]), return_std=True, among=ranked)
    assert told["likings"][0]["mean"] == pytest.approx(float(mean[0, 0]), abs=TOLERANCE)
    assert told["likings"][0]["sd"] == pytest.approx(float(sd[0, 0]), abs=TOLERANCE)
    assert (told["version"], told["as_of_seq"]) == (snapshot.number, snapshot.last_sequence)


def test_a_worker_the_model_has_not_met_is_taken_for_a_typical_one(
    olga: Client, project: Project, snapshot: ModelSnapshot
) -> None:
    pair = {"a": "text-000", "b": "text-001"}
    newcomer = services.enrol(project=project)
    typical, theirs = predict(olga, pairs=[pair, {**pair, "worker": newcomer.code}]).json()["pairs"]
    assert theirs["probability"] == typical["probability"]
    assert theirs["personal"] is False
    liked = predict(olga, likings=[{"worker": newcomer.code, "item": "text-000"}]).json()["likings"][0]
    score = ConsensusScore.objects.get(snapshot=snapshot, item__key="text-000")
    assert (liked["mean"], liked["sd"]) == pytest.approx((score.mean, score.sd), abs=1e-9)


def test_a_new_text_is_placed_among_the_items(olga: Client, snapshot: ModelSnapshot) -> None:
    told = predict(olga, texts=[{"text": "Evidence and numbers, reason 77."}]).json()["texts"][0]
    assert 1 <= told["rank_low"] <= told["rank"] <= told["rank_high"] <= told["n_items"] + 1
    assert told["n_items"] == 9


@pytest.mark.parametrize(
    ("questions", "field"),
    [
        ({"pairs": [{"a": "text-000", "b": "nothing"}]}, "pairs.0.b"),
        ({"pairs": [{"a": "text-000", "b": "text-001", "worker": "nobody2345"}]}, "pairs.0.worker"),
        ({"likings": [{"worker": "nobody2345", "item": "text-000"}]}, "likings.0.worker"),
        ({"texts": [{"text": "x", "group": "no such group"}]}, "texts.0.group"),
        ({"version": 99}, "version"),
    ],
)
def test_what_a_version_does_not_know_is_not_found(
    questions: dict[str, Any], field: str, olga: Client, snapshot: ModelSnapshot
) -> None:
    refused = predict(olga, **questions)
    assert (refused.status_code, refused.json()["field"]) == (404, field)


def test_before_the_first_version_there_is_nothing_to_predict_from(olga: Client, project: Project) -> None:
    assert predict(olga).status_code == 409
    assert olga.get(f"{PETS}/ranking").status_code == 404


def test_a_version_whose_arrays_are_gone_still_has_its_ranking(
    olga: Client, project: Project, snapshot: ModelSnapshot
) -> None:
    shutil.rmtree(settings.DATA_DIR / "snapshots")
    snapshots._shared.cache_clear()  # what this process has read before
    refused = predict(olga, pairs=[{"a": "text-000", "b": "text-001"}])
    assert (refused.status_code, refused.json()["code"]) == (409, "no_arrays")
    assert len(olga.get(f"{PETS}/ranking").json()["rows"]) == 9


def test_a_ranking_is_that_of_the_shown_version_or_of_the_one_asked_for(olga: Client, project: Project) -> None:
    keys = list(Item.objects.filter(project=project).values_list("key", flat=True))
    make_version(project, 1, order=keys)
    make_version(project, 2, order=keys[::-1])
    shown, first = olga.get(f"{PETS}/ranking").json(), olga.get(f"{PETS}/ranking", {"version": 1}).json()
    assert ([row["key"] for row in shown["rows"]], shown["version"], shown["as_of_seq"]) == (keys[::-1], 2, 20)
    assert ([row["key"] for row in first["rows"]], first["version"]) == (keys, 1)
    assert [row["shown"] for row in olga.get(f"{PETS}/snapshots").json()["rows"]] == [True, False]


def test_a_version_that_knows_an_erased_person_is_not_told_any_more(
    olga: Client, project: Project, worker: Worker, judge: Any
) -> None:
    judge(worker)
    make_version(project, 1)
    services.erase_worker(worker=worker, user=None, remove_judgements=True)
    assert olga.get(f"{PETS}/ranking", {"version": 1}).status_code == 404
    assert olga.get(f"{PETS}/snapshots/1").status_code == 404
    assert olga.get(f"{PETS}/workers/{worker.code}").status_code == 404


def test_suggestions_put_are_the_only_ones_and_the_best_is_given_out_first(
    olga: Client, project: Project, worker: Worker
) -> None:
    Project.objects.filter(pk=project.pk).update(random_share=0)
    for pairs in ([("cats-1", "cats-2", 0.5)], [("dogs-3", "dogs-1", 0.9), ("cats-3", "cats-4", 0.1)]):
        body = {"suggestions": [{"a": a, "b": b, "gain": gain} for a, b, gain in pairs]}
        assert olga.put(f"{PETS}/suggestions", body, content_type="application/json").status_code == 200
    assert [row["gain"] for row in olga.get(f"{PETS}/suggestions").json()["rows"]] == [0.9, 0.1]
    first = olga.post(f"{PETS}/workers/{worker.code}/pairs").json()["pairs"][0]
    assert {first["left"]["text"], first["right"]["text"]} == {"Dogs are loyal.", "Dogs need walks."}
    body = {"suggestions": [{"a": "cats-1", "b": "cats-1", "gain": 1}]}
    assert olga.put(f"{PETS}/suggestions", body, content_type="application/json").status_code == 422
    assert Suggestion.objects.count() == 2
