"""One worker: personal scores beside the consensus, why they differ, and which answers are surprising."""

import csv
import io
from collections.abc import Callable

import numpy as np
import pytest
from django.test import Client

from annotation import services
from annotation.models import Item, Judgement, Project, User, Worker
from modelling.crowdgppl import CrowdGPPL
from modelling.dashboards.answers import learned_from
from modelling.dashboards.item import judgements_of
from modelling.dashboards.pairs import answers
from modelling.dashboards.surprises import Answer, Log
from modelling.dashboards.worker import AskedOfWorker, WorkerPage, worker_page
from modelling.dashboards.workers import AskedOfWorkers, workers_page
from modelling.models import ModelSnapshot
from modelling.ranking import relative_sd
from tests.modelling.two_camps import estimator_of, fitted_study, grown_twin, statements

pytestmark = pytest.mark.django_db

RTOL = 1e-9  # the same sums in another order


@pytest.fixture
def snapshot(project: Project) -> ModelSnapshot:
    return fitted_study(project)


@pytest.fixture
def somebody(snapshot: ModelSnapshot) -> Worker:
    return snapshot.project.workers.get(pk=min(estimator_of(snapshot)[1]["worker_ids"]))


@pytest.fixture
def page(snapshot: ModelSnapshot, somebody: Worker) -> WorkerPage:
    return worker_page(snapshot, somebody, AskedOfWorker("text-002", "text-005"))


def places(snapshot: ModelSnapshot) -> tuple[CrowdGPPL, dict[int, int], dict[int, int]]:
    model, stored = estimator_of(snapshot)
    at = [{int(pk): place for place, pk in enumerate(stored[name])} for name in ("item_ids", "worker_ids")]
    return model, at[0], at[1]


def test_every_score_is_what_the_estimator_says_and_the_causes_add_up(
    snapshot: ModelSnapshot, somebody: Worker, page: WorkerPage
) -> None:
    model, item_at, worker_at = places(snapshot)
    u = worker_at[somebody.pk]
    ranked = [item_at[pk] for pk in snapshot.scores.values_list("item_id", flat=True)]
    mean, sd = (each[:, 0] for each in model.predict_utilities(users=[u], return_std=True, among=ranked))
    consensus, cov = model.predict_consensus(return_cov=True)
    spread = relative_sd(cov, among=np.array(ranked))
    for each in page.preferences:
        i = item_at[each.score.item_id]
        np.testing.assert_allclose([each.mean, each.sd], [mean[i], sd[i]], rtol=RTOL)
        np.testing.assert_allclose([each.score.mean, each.score.sd], [consensus[i], spread[i]], rtol=1e-6)
        parts = {abs(v) for v in model.item_components_[:, i] * model.user_components_[:, u]}
        assert all(min(abs(abs(cause.value) - part) for part in parts) < 1e-12 for cause in each.causes)
        assert each.difference == pytest.approx(sum(cause.value for cause in each.causes) + each.rest)
    gaps = [abs(each.difference) for each in page.preferences]
    assert gaps == sorted(gaps, reverse=True)
    active = [item_at[item.pk] for item in Item.objects.filter(active=True)]
    assert [each.rank for each in page.preferences] == [
        1 + int((mean[active] > mean[item_at[each.score.item_id]]).sum()) for each in page.preferences
    ]


def test_a_pair_is_predicted_for_the_worker_and_for_a_typical_one(
    snapshot: ModelSnapshot, somebody: Worker, page: WorkerPage
) -> None:
    model, item_at, worker_at = places(snapshot)
    a, b = (item_at[Item.objects.get(key=key).pk] for key in ("text-002", "text-005"))
    assert page.pair.own == pytest.approx(model.predict_proba([worker_at[somebody.pk]], [a], [b])[0], rel=RTOL)
    assert page.pair.crowd == pytest.approx(model.predict_consensus_proba([a], [b])[0], rel=RTOL)
    for nonsense in (AskedOfWorker("text-002", "text-002"), AskedOfWorker("text-002", "?"), AskedOfWorker()):
        assert worker_page(snapshot, somebody, nonsense).pair is None


def test_every_answer_has_the_estimators_probability_and_its_bits(
    snapshot: ModelSnapshot, somebody: Worker, page: WorkerPage
) -> None:
    model, item_at, worker_at = places(snapshot)
    stored = {each.sequence: each for each in Judgement.objects.filter(worker=somebody)}
    assert {answer.sequence for answer in page.answers} == set(stored)
    for answer in page.answers:
        judgement = stored[answer.sequence]
        a, b = item_at[answer.first.pk], item_at[answer.second.pk]
        assert answer.own == pytest.approx(model.predict_proba([worker_at[somebody.pk]], [a], [b])[0], rel=RTOL)
        assert answer.crowd == pytest.approx(model.predict_consensus_proba([a], [b])[0], rel=RTOL)
        assert answer.tie == (judgement.choice == "tie")
        if not answer.tie:
            assert answer.first.pk == (judgement.item_lo_id if judgement.choice == "lo" else judgement.item_hi_id)
            assert answer.bits_own == pytest.approx(-np.log2(answer.own))
            assert answer.bits_crowd == pytest.approx(-np.log2(answer.crowd))
        else:
            assert answer.bits_own == pytest.approx(-0.5 * np.log2(answer.own * (1 - answer.own)))
    assert page.fit.answers == len(stored)
    assert page.fit.bits_own == pytest.approx(np.mean([answer.bits_own for answer in page.answers]))
    assert page.fit.foreseen == sum(not each.tie and each.own > 0.5 for each in page.answers)
    assert page.fit.agreed == sum(not each.tie and each.crowd > 0.5 for each in page.answers)


def test_a_worker_with_very_many_answers_is_counted_whole_as_in_the_table_of_all_workers(
    snapshot: ModelSnapshot, somebody: Worker, page: WorkerPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Log.read.__func__, "__defaults__", (3,))
    fit = worker_page(snapshot, somebody, AskedOfWorker()).fit
    row = next(row for row in workers_page(snapshot.project, snapshot, AskedOfWorkers()).rows if row.worker == somebody)
    assert (fit.answers, fit.decided, fit.agreed, fit.foreseen) == (
        page.fit.answers, page.fit.decided, page.fit.agreed, page.fit.foreseen,
    )  # fmt: skip
    assert (fit.answers, fit.agreed / fit.decided) == (row.judgements, row.agreement)
    assert (fit.weighed, fit.capped, page.fit.capped) == (3, True, False)


@pytest.mark.parametrize("order", ["own", "crowd"])
def test_the_most_surprising_answers_come_first(snapshot: ModelSnapshot, somebody: Worker, order: str) -> None:
    answers = worker_page(snapshot, somebody, AskedOfWorker(order=order)).answers
    bits = [getattr(answer, f"bits_{order}") for answer in answers]
    assert bits == sorted(bits, reverse=True)


@pytest.mark.parametrize(
    ("own", "crowd", "verdict"),
    [(0.5, 3.0, "differs from the crowd"), (3.0, 3.0, "unlike"), (3.0, 0.5, "unlike"), (0.5, 0.5, "")],
)
def test_different_is_not_wrong(own: float, crowd: float, verdict: str) -> None:
    answer = Answer(Item(), Item(), False, 2**-own, 2**-crowd, own, crowd, None, 1)
    assert answer.verdict.startswith(verdict)
    assert bool(answer.verdict) == bool(verdict)


def test_the_page_shows_it_and_the_files_say_the_same(
    snapshot: ModelSnapshot, somebody: Worker, page: WorkerPage, analyst: User, log_in: Callable[[User], Client]
) -> None:
    client, where = log_in(analyst), f"/projects/pets/workers/{somebody.code}/"
    answer = client.get(f"{where}?a=text-002&b=text-005&sort=crowd")
    assert f"with a probability of {round(100 * page.pair.own)} %" in " ".join(answer.text.split())
    assert "Wrong or different?" in answer.text
    rows = list(csv.DictReader(io.StringIO(client.get(f"{where}preferences.csv").text)))
    assert [row["key"] for row in rows] == [each.score.item.key for each in page.preferences]
    assert [float(row["mean"]) for row in rows] == pytest.approx([each.mean for each in page.preferences], rel=RTOL)
    told = list(csv.DictReader(io.StringIO(client.get(f"{where}judgements.csv").text)))
    assert [int(row["sequence"]) for row in told] == sorted((each.sequence for each in page.answers), reverse=True)
    numbers = list(csv.reader(io.StringIO(client.get(f"{where}?csv=causes").text)))
    assert len(numbers) == 13


def test_a_worker_the_model_has_not_met_has_an_empty_page_and_no_file(
    snapshot: ModelSnapshot, project: Project, analyst: User, log_in: Callable[[User], Client]
) -> None:
    stranger, client = services.enrol(project=project), log_in(analyst)
    assert "has not learned from this worker yet" in client.get(f"/projects/pets/workers/{stranger.code}/").text
    assert client.get(f"/projects/pets/workers/{stranger.code}/preferences.csv").status_code == 404
    assert len(client.get(f"/projects/pets/workers/{stranger.code}/judgements.csv").text.splitlines()) == 1


def test_an_answer_taken_back_since_stays_with_the_version_that_has_learned_it_on_every_page(
    snapshot: ModelSnapshot, somebody: Worker, page: WorkerPage
) -> None:
    gone = Judgement.objects.filter(worker=somebody).latest("sequence")
    services.retract(worker=somebody, uuid=gone.uuid, judgement=gone.uuid)
    told = worker_page(snapshot, somebody, AskedOfWorker()).answers
    assert {each.sequence for each in told} == {each.sequence for each in page.answers} >= {gone.sequence}
    row = next(row for row in workers_page(snapshot.project, snapshot, AskedOfWorkers()).rows if row.worker == somebody)
    assert row.judgements == page.fit.answers
    assert judgements_of(snapshot, gone.item_lo).filter(pk=gone.pk).exists()
    counted = answers(snapshot, [gone.item_lo, gone.item_hi], somebody)[gone.choice]
    assert counted[gone.item_lo_id, gone.item_hi_id] > 0


def test_the_answers_of_somebody_erased_with_them_are_gone_before_the_next_version(
    snapshot: ModelSnapshot, somebody: Worker
) -> None:
    services.erase_worker(worker=somebody, user=None, remove_judgements=True)
    assert worker_page(snapshot, somebody, AskedOfWorker()).answers == []
    assert not learned_from(snapshot).filter(worker=somebody).exists()


def test_as_many_statements_for_three_times_the_study(
    snapshot: ModelSnapshot, project: Project, owner: User, somebody: Worker, log_in: Callable[[User], Client]
) -> None:
    twin = grown_twin(project, owner)
    client = log_in(owner)
    one, other = (f"/projects/{each.slug}/workers/{each.workers.first().code}/" for each in (project, twin))
    assert statements(client, one) == statements(client, other) < 20
