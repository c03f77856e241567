"""Predictions and rankings by the API equal those of the estimator."""

import shutil
from typing import Any

import numpy as np
import pytest
from django.conf import settings
from django.test import Client

from annotation import services
from annotation.models import Item, Project, Suggestion, Worker
from modelling.models import ConsensusScore, ModelSnapshot
from modelling.training import snapshots
from tests.modelling.samples.studies import make_version
from tests.modelling.samples.two_camps import load_estimator, make_fitted_study

pytestmark = pytest.mark.django_db
PETS = "/api/v1/projects/pets"
TOLERANCE = 1e-12  # the same arrays by two ways of reading them


@pytest.fixture
def snapshot(project: Project) -> ModelSnapshot:
    return make_fitted_study(project, n_items=9, n_workers=6, n_labels=120)


def predict(client: Client, **wanted: Any) -> Any:
    return client.post(f"{PETS}/predict", wanted, content_type="application/json")


def test_pairs_and_utilities_equal_the_estimator(olga: Client, project: Project, snapshot: ModelSnapshot) -> None:
    model, stored = load_estimator(snapshot)
    worker = Worker.objects.get(pk=int(stored["worker_ids"][0]))
    place = {int(pk): at for at, pk in enumerate(stored["item_ids"])}
    a, b = (Item.objects.get(project=project, key=key) for key in ("text-000", "text-001"))
    i, j = place[a.pk], place[b.pk]
    predicted = predict(
        olga,
        pairs=[{"a": a.key, "b": b.key}, {"a": a.key, "b": b.key, "worker": worker.code}],
        utilities=[{"worker": worker.code, "item": b.key}],
        likings=[{"worker": worker.code, "item": b.key}],
    ).json()
    typical, own = predicted["pairs"]
    p = [float(model.predict_consensus_proba([i], [j], kind)[0]) for kind in ("typical", "mean")]
    assert typical["probability"] == pytest.approx(p[0], abs=TOLERANCE)
    assert typical["probability_random_worker"] == own["probability_random_worker"]
    assert own["probability_random_worker"] == pytest.approx(p[1], abs=TOLERANCE)
    assert own["probability"] == pytest.approx(float(model.predict_proba([0], [i], [j])[0]), abs=TOLERANCE)
    assert (typical["personal"], own["personal"]) == (False, True)
    ranked = stored["ranked"]
    mean, sd = model.predict_utilities(users=np.array([0]), items=np.array([j]), return_std=True, among=ranked)
    assert predicted["likings"] == predicted["utilities"], "the old name"
    assert predicted["utilities"][0]["mean"] == pytest.approx(float(mean[0, 0]), abs=TOLERANCE)
    assert predicted["utilities"][0]["sd"] == pytest.approx(float(sd[0, 0]), abs=TOLERANCE)
    assert (predicted["version"], predicted["as_of_seq"]) == (snapshot.number, snapshot.last_sequence)


def test_an_unknown_worker_gets_the_predictions_of_a_typical_one(
    olga: Client, project: Project, snapshot: ModelSnapshot
) -> None:
    pair = {"a": "text-000", "b": "text-001"}
    newcomer = services.enrol(project=project)
    typical, theirs = predict(olga, pairs=[pair, {**pair, "worker": newcomer.code}]).json()["pairs"]
    assert theirs["probability"] == typical["probability"]
    assert theirs["personal"] is False
    utility = predict(olga, utilities=[{"worker": newcomer.code, "item": "text-000"}]).json()["utilities"][0]
    score = ConsensusScore.objects.get(snapshot=snapshot, item__key="text-000")
    assert (utility["mean"], utility["sd"]) == pytest.approx((score.mean, score.sd), abs=1e-9)


def test_a_new_text_gets_a_rank(olga: Client, snapshot: ModelSnapshot) -> None:
    predicted = predict(olga, texts=[{"text": "Evidence and numbers, reason 77."}]).json()["texts"][0]
    assert 1 <= predicted["rank_low"] <= predicted["rank"] <= predicted["rank_high"] <= predicted["n_items"] + 1
    assert predicted["n_items"] == 9


@pytest.mark.parametrize(
    ("wanted", "field"),
    [
        ({"pairs": [{"a": "text-000", "b": "nothing"}]}, "pairs.0.b"),
        ({"pairs": [{"a": "text-000", "b": "text-001", "worker": "unknown2345"}]}, "pairs.0.worker"),
        ({"utilities": [{"worker": "unknown2345", "item": "text-000"}]}, "utilities.0.worker"),
        ({"likings": [{"worker": "unknown2345", "item": "text-000"}]}, "likings.0.worker"),
        ({"texts": [{"text": "x", "group": "no such group"}]}, "texts.0.group"),
        ({"version": 99}, "version"),
    ],
)
def test_unknown_items_and_workers_are_not_found(
    wanted: dict[str, Any], field: str, olga: Client, snapshot: ModelSnapshot
) -> None:
    refused = predict(olga, **wanted)
    assert (refused.status_code, refused.json()["field"]) == (404, field)


def test_predictions_need_a_version(olga: Client, project: Project) -> None:
    assert predict(olga).status_code == 409
    assert olga.get(f"{PETS}/ranking").status_code == 404


def test_a_version_without_arrays_still_has_its_ranking(
    olga: Client, project: Project, snapshot: ModelSnapshot
) -> None:
    shutil.rmtree(settings.DATA_DIR / "snapshots")
    snapshots._cached_fitted_model.cache_clear()  # what this process has read before
    refused = predict(olga, pairs=[{"a": "text-000", "b": "text-001"}])
    assert (refused.status_code, refused.json()["code"]) == (409, "no_arrays")
    assert len(olga.get(f"{PETS}/ranking").json()["rows"]) == 9


def test_the_ranking_is_of_the_shown_or_requested_version(olga: Client, project: Project) -> None:
    keys = list(Item.objects.filter(project=project).values_list("key", flat=True))
    make_version(project, 1, order=keys)
    make_version(project, 2, order=keys[::-1])
    shown, first = olga.get(f"{PETS}/ranking").json(), olga.get(f"{PETS}/ranking", {"version": 1}).json()
    assert ([row["key"] for row in shown["rows"]], shown["version"], shown["as_of_seq"]) == (keys[::-1], 2, 20)
    assert ([row["key"] for row in first["rows"]], first["version"]) == (keys, 1)
    assert [row["shown"] for row in olga.get(f"{PETS}/snapshots").json()["rows"]] == [True, False]


def test_a_version_has_its_hyperparameters(olga: Client, project: Project) -> None:
    make_version(project, 1)
    make_version(project, 2, diagnostics={"hyperparameters": {"consensus_variance": 0.5, "lapse": 0.02}})
    assert olga.get(f"{PETS}/snapshots/2").json()["hyperparameters"] == {"consensus_variance": 0.5, "lapse": 0.02}
    assert [row["hyperparameters"] for row in olga.get(f"{PETS}/snapshots").json()["rows"]][1] == {}


def test_a_version_with_erased_data_is_not_returned(olga: Client, project: Project, worker: Worker, judge: Any) -> None:
    judge(worker)
    make_version(project, 1)
    services.erase_worker(worker=worker, user=None, remove_judgements=True)
    assert olga.get(f"{PETS}/ranking", {"version": 1}).status_code == 404
    assert olga.get(f"{PETS}/snapshots/1").status_code == 404
    assert olga.get(f"{PETS}/workers/{worker.code}").status_code == 404


def test_suggestions_replace_others_and_the_best_is_used_first(olga: Client, project: Project, worker: Worker) -> None:
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
