"""The page of one worker: personal scores, contributions of the components, surprising judgements."""

import csv
import io
from collections.abc import Callable
from uuid import uuid4

import numpy as np
import pytest
from django.test import Client

from annotation import services
from annotation.models import Item, Judgement, Project, User, Worker
from modelling.crowdgppl import CrowdGPPL
from modelling.dashboards.item import item_judgements
from modelling.dashboards.pairs import count_outcomes
from modelling.dashboards.workers.listing import WorkersQuery, workers_page
from modelling.dashboards.workers.worker import WorkerAnswers, WorkerJudgement, WorkerPage, WorkerQuery, worker_page
from modelling.models import ModelSnapshot
from modelling.training.ranking import Z_95, relative_sd
from modelling.training.votes import training_judgements
from modelling.updater.update import update_one
from tests.modelling.samples.two_camps import load_estimator
from tests.modelling.samples.two_camps import snapshot as snapshot

pytestmark = pytest.mark.django_db

RTOL = 1e-9  # the same sums in another order


@pytest.fixture(autouse=True)
def _one_page_with_all_judgements(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("modelling.dashboards.workers.worker.JUDGEMENTS_PER_PAGE", 100)


@pytest.fixture
def worker(snapshot: ModelSnapshot) -> Worker:
    return snapshot.project.workers.get(pk=min(load_estimator(snapshot)[1]["worker_ids"]))


@pytest.fixture
def page(snapshot: ModelSnapshot, worker: Worker) -> WorkerPage:
    return worker_page(snapshot, worker, WorkerQuery("text-002", "text-005"))


def places(snapshot: ModelSnapshot) -> tuple[CrowdGPPL, dict[int, int], dict[int, int]]:
    model, stored = load_estimator(snapshot)
    at = [{int(pk): place for place, pk in enumerate(stored[name])} for name in ("item_ids", "worker_ids")]
    return model, at[0], at[1]


def test_every_score_is_the_estimators_and_contributions_add_up(
    snapshot: ModelSnapshot, worker: Worker, page: WorkerPage
) -> None:
    model, item_at, worker_at = places(snapshot)
    u = worker_at[worker.pk]
    ranked = [item_at[pk] for pk in snapshot.scores.values_list("item_id", flat=True)]
    mean, sd = (each[:, 0] for each in model.predict_utilities(users=[u], return_std=True, among=ranked))
    consensus, cov = model.predict_consensus(return_cov=True)
    consensus = consensus - consensus[ranked].mean()
    spread = relative_sd(cov, among=np.array(ranked))
    for each in page.scores:
        i = item_at[each.consensus.item_id]
        np.testing.assert_allclose([each.mean, each.sd], [mean[i], sd[i]], rtol=RTOL)
        np.testing.assert_allclose([each.consensus.mean, each.consensus.sd], [consensus[i], spread[i]], rtol=1e-6)
        v = model.item_components_[:, i] - model.item_components_[:, ranked].mean(axis=1)
        products = {abs(product) for product in v * model.user_components_[:, u]}
        assert all(min(abs(abs(part.value) - product) for product in products) < 1e-12 for part in each.contributions)
        assert each.difference == pytest.approx(sum(part.value for part in each.contributions) + each.residual)
    gaps = [abs(each.difference) for each in page.scores]
    assert gaps == sorted(gaps, reverse=True)
    active = [item_at[item.pk] for item in Item.objects.filter(active=True)]
    assert [each.rank for each in page.scores] == [
        1 + int((mean[active] > mean[item_at[each.consensus.item_id]]).sum()) for each in page.scores
    ]


def test_a_pair_is_predicted_for_the_worker_and_for_a_random_one(
    snapshot: ModelSnapshot, worker: Worker, page: WorkerPage
) -> None:
    model, item_at, worker_at = places(snapshot)
    a, b = (item_at[Item.objects.get(key=key).pk] for key in ("text-002", "text-005"))
    assert page.pair.own == pytest.approx(model.predict_proba([worker_at[worker.pk]], [a], [b])[0], rel=RTOL)
    assert page.pair.crowd == pytest.approx(model.predict_consensus_proba([a], [b])[0], rel=RTOL)
    for nonsense in (WorkerQuery("text-002", "text-002"), WorkerQuery("text-002", "?"), WorkerQuery()):
        assert worker_page(snapshot, worker, nonsense).pair is None


def test_every_judgement_has_the_estimators_probability_and_surprisal(
    snapshot: ModelSnapshot, worker: Worker, page: WorkerPage
) -> None:
    model, item_at, worker_at = places(snapshot)
    stored = {each.sequence: each for each in Judgement.objects.filter(worker=worker)}
    assert {answer.sequence for answer in page.judgements} == set(stored)
    for answer in page.judgements:
        judgement = stored[answer.sequence]
        a, b = item_at[answer.first.pk], item_at[answer.second.pk]
        assert answer.own == pytest.approx(model.predict_proba([worker_at[worker.pk]], [a], [b])[0], rel=RTOL)
        assert answer.crowd == pytest.approx(model.predict_consensus_proba([a], [b])[0], rel=RTOL)
        assert answer.tie == (judgement.choice == "tie")
        if not answer.tie:
            assert answer.first.pk == (judgement.item_lo_id if judgement.choice == "lo" else judgement.item_hi_id)
            assert answer.bits_own == pytest.approx(-np.log2(answer.own))
            assert answer.bits_crowd == pytest.approx(-np.log2(answer.crowd))
        else:
            assert answer.bits_own == pytest.approx(-0.5 * np.log2(answer.own * (1 - answer.own)))
    assert page.summary.judgements == len(stored)
    assert page.summary.bits_own == pytest.approx(np.mean([answer.bits_own for answer in page.judgements]))
    assert page.summary.explained == sum(not each.tie and each.own > 0.5 for each in page.judgements)
    assert page.summary.agreed == sum(not each.tie and each.crowd > 0.5 for each in page.judgements)


def test_counts_include_all_judgements_even_if_only_the_newest_are_evaluated(
    snapshot: ModelSnapshot, worker: Worker, page: WorkerPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(WorkerAnswers.load.__func__, "__defaults__", (3,))
    summary = worker_page(snapshot, worker, WorkerQuery()).summary
    row = next(row for row in workers_page(snapshot.project, snapshot, WorkersQuery()).rows if row.worker == worker)
    assert (summary.judgements, summary.decided, summary.agreed, summary.explained) == (
        page.summary.judgements, page.summary.decided, page.summary.agreed, page.summary.explained,
    )  # fmt: skip
    assert (summary.judgements, summary.agreed / summary.decided) == (row.judgements, row.agreement.value)
    assert (summary.evaluated, summary.is_capped, page.summary.is_capped) == (3, True, False)


@pytest.mark.parametrize("order", ["own", "crowd"])
def test_the_most_surprising_judgements_come_first(snapshot: ModelSnapshot, worker: Worker, order: str) -> None:
    answers = worker_page(snapshot, worker, WorkerQuery(order=order)).judgements
    bits = [getattr(answer, f"bits_{order}") for answer in answers]
    assert bits == sorted(bits, reverse=True)


@pytest.mark.parametrize(
    ("own", "crowd", "assessment"),
    [(0.5, 3.0, "a different opinion"), (3.0, 3.0, "unusual"), (3.0, 0.5, "unusual"), (0.5, 0.5, "")],
)
def test_a_different_opinion_is_not_called_a_mistake(own: float, crowd: float, assessment: str) -> None:
    answer = WorkerJudgement(Item(), Item(), False, 2**-own, 2**-crowd, 0.5, own, crowd, 1.0, None, 1)
    assert answer.assessment.startswith(assessment)
    assert bool(answer.assessment) == bool(assessment)


def test_page_and_files_have_the_same_numbers(
    snapshot: ModelSnapshot, worker: Worker, page: WorkerPage, analyst: User, log_in: Callable[[User], Client]
) -> None:
    client, where = log_in(analyst), f"/projects/pets/workers/{worker.code}/"
    answer = client.get(f"{where}?a=text-002&b=text-005&sort=crowd")
    assert f"</bdi>: {round(100 * page.pair.own)} %." in " ".join(answer.text.split())
    assert "perhaps a mistake" in answer.text
    rows = list(csv.DictReader(io.StringIO(client.get(f"{where}preferences.csv").text)))
    clear = [row for row in rows if abs(float(row["difference"])) > Z_95 * float(row["difference_sd"])]
    assert 0 < len(clear) < len(rows)
    assert [row["key"] for row in clear] == [each.consensus.item.key for each in page.scores]
    assert [float(row["mean"]) for row in clear] == pytest.approx([each.mean for each in page.scores], rel=RTOL)
    file_rows = list(csv.DictReader(io.StringIO(client.get(f"{where}judgements.csv").text)))
    assert [int(row["sequence"]) for row in file_rows] == sorted(
        (each.sequence for each in page.judgements), reverse=True
    )
    numbers = list(csv.reader(io.StringIO(client.get(f"{where}?csv=contributions").text)))
    assert len(numbers) == 13


def test_nothing_is_said_about_a_worker_whose_differences_are_not_clear(
    snapshot: ModelSnapshot, worker: Worker, analyst: User, log_in: Callable[[User], Client]
) -> None:
    keep = Judgement.objects.filter(worker=worker).order_by("sequence").first()
    for judgement in Judgement.objects.filter(worker=worker).exclude(pk=keep.pk):
        services.retract(worker=worker, uuid=uuid4(), judgement=judgement.uuid)
    assert update_one("test").number == 2
    page = worker_page(snapshot.project.snapshots.get(number=2), worker, WorkerQuery())
    assert (page.scores, page.figures) == ([], [])
    text = log_in(analyst).get(f"/projects/pets/workers/{worker.code}/").text
    assert "No difference from the consensus is clear: every 95 % interval includes 0 (n = 1 judgement)." in text


def test_a_worker_unknown_to_the_model_has_an_empty_page_and_no_file(
    snapshot: ModelSnapshot, project: Project, analyst: User, log_in: Callable[[User], Client]
) -> None:
    stranger, client = services.enrol(project=project), log_in(analyst)
    assert "includes no judgements by this worker yet" in client.get(f"/projects/pets/workers/{stranger.code}/").text
    assert client.get(f"/projects/pets/workers/{stranger.code}/preferences.csv").status_code == 404
    assert len(client.get(f"/projects/pets/workers/{stranger.code}/judgements.csv").text.splitlines()) == 1


def test_a_judgement_retracted_later_stays_with_the_version_that_includes_it(
    snapshot: ModelSnapshot, worker: Worker, page: WorkerPage
) -> None:
    gone = Judgement.objects.filter(worker=worker).latest("sequence")
    services.retract(worker=worker, uuid=gone.uuid, judgement=gone.uuid)
    file_rows = worker_page(snapshot, worker, WorkerQuery()).judgements
    assert {each.sequence for each in file_rows} == {each.sequence for each in page.judgements} >= {gone.sequence}
    row = next(row for row in workers_page(snapshot.project, snapshot, WorkersQuery()).rows if row.worker == worker)
    assert row.judgements == page.summary.judgements
    assert item_judgements(snapshot, gone.item_lo).filter(pk=gone.pk).exists()
    counted = count_outcomes(snapshot, [gone.item_lo, gone.item_hi], worker)[gone.choice]
    assert counted[gone.item_lo_id, gone.item_hi_id] > 0


def test_judgements_erased_with_a_worker_disappear_before_the_next_version(
    snapshot: ModelSnapshot, worker: Worker
) -> None:
    services.erase_worker(worker=worker, user=None, remove_judgements=True)
    assert worker_page(snapshot, worker, WorkerQuery()).judgements == []
    assert not training_judgements(snapshot).filter(worker=worker).exists()
