"""All workers: the map with its ellipses, and how answers fit the crowd and themselves."""

import csv
import io
from collections.abc import Callable

import numpy as np
import pytest
from django.test import Client

from annotation import services
from annotation.models import AuditEntry, Judgement, Project, User, Worker
from modelling.dashboards.answers import learned_from, medians, surprise, tally_of
from modelling.dashboards.axes import axes_of
from modelling.dashboards.opinion_map import ellipses
from modelling.dashboards.workers import AskedOfWorkers, workers_page
from modelling.models import ComponentNumbers, ModelSnapshot
from modelling.updating import run_one
from tests.modelling.two_camps import estimator_of, fitted_study, grown_twin, make_study, statements

pytestmark = pytest.mark.django_db

SIDES = {"lo": 1.0, "hi": -1.0}


@pytest.fixture
def snapshot(project: Project) -> ModelSnapshot:
    return fitted_study(project)


def test_every_number_is_what_the_estimator_says(snapshot: ModelSnapshot) -> None:
    model, stored = estimator_of(snapshot)
    page = workers_page(snapshot.project, snapshot, AskedOfWorkers())
    item_at = {int(pk): place for place, pk in enumerate(stored["item_ids"])}
    strongest = np.argsort(-model.component_energy_)[:2]
    signs = np.array(ComponentNumbers.objects.get(snapshot=snapshot).signs)[strongest]
    consensus, F = model.predict_consensus(), model.predict_utilities()
    for row in page.rows:
        u = int(np.flatnonzero(stored["worker_ids"] == row.worker.pk)[0])
        given = Judgement.objects.filter(worker=row.worker)
        sides = [
            (item_at[each.item_lo_id], item_at[each.item_hi_id], SIDES[each.choice])
            for each in given.exclude(choice="tie")
        ]
        assert row.judgements == given.count()
        assert row.decided == len(sides)
        assert row.agreement == np.mean([np.sign(consensus[a] - consensus[b]) == side for a, b, side in sides])
        assert row.foreseen == np.mean([np.sign(F[a, u] - F[b, u]) == side for a, b, side in sides])
        assert row.seconds == np.median([each.response_ms for each in given]) / 1000
        assert [row.place.x, row.place.y] == list(signs * model.user_components_[strongest, u])


def test_an_ellipse_holds_half_of_the_posterior(snapshot: ModelSnapshot) -> None:
    """By drawing from the posterior: as many draws inside the outline as outside."""
    axes = axes_of(snapshot)
    worker = int(axes.fitted.worker_ids[3])
    outline = ellipses(axes, [worker])[worker]
    cov = axes.user_covariances(axes.strongest[:2])[3]
    centre = axes.users[axes.strongest[:2], 3]
    np.testing.assert_allclose(outline[:-1].mean(axis=0), centre, atol=1e-9)
    distances = np.einsum("ni,ij,nj->n", outline - centre, np.linalg.inv(cov), outline - centre)
    np.testing.assert_allclose(distances, distances[0], rtol=1e-6)
    drawn = np.random.default_rng(0).multivariate_normal(np.zeros(2), cov, 20_000)
    inside = np.einsum("ni,ij,nj->n", drawn, np.linalg.inv(cov), drawn) < distances[0]
    assert abs(inside.mean() - 0.5) < 0.02


def test_the_two_camps_are_apart_and_a_newcomer_is_vague(project: Project, judge: Callable[..., object]) -> None:
    make_study(project)
    newcomer = services.enrol(project=project)
    judge(newcomer, "left")
    version = run_one("test")
    rows = workers_page(project, version, AskedOfWorkers()).rows
    facts, stories = (
        [row.place.x for row in rows if row.worker.traits.get("camp") == camp] for camp in ("facts", "stories")
    )
    assert max(facts) < min(stories) or max(stories) < min(facts)
    vague = next(row for row in rows if row.worker == newcomer)
    assert vague.place.x_sd > 2 * np.median([row.place.x_sd for row in rows])


def test_the_map_has_a_colour_and_a_symbol_for_each_group_of_a_trait(snapshot: ModelSnapshot) -> None:
    page = workers_page(snapshot.project, snapshot, AskedOfWorkers(trait="camp"))
    points = [trace for trace in page.pictures[0].traces if trace["mode"] == "markers"]
    assert [trace["name"] for trace in points] == ["facts", "stories"]
    assert [len(trace["x"]) for trace in points] == [8, 8]
    assert len({(trace["marker"]["color"], trace["marker"]["symbol"]) for trace in points}) == 2
    plain = workers_page(snapshot.project, snapshot, AskedOfWorkers(trait="nothing of the kind"))
    assert len([trace for trace in plain.pictures[0].traces if trace["mode"] == "markers"]) == 1
    assert page.traits == ["age", "camp"]


@pytest.mark.parametrize(
    ("order", "key"),
    [
        ("judgements", lambda row: -row.judgements),
        ("agreement", lambda row: row.agreement),
        ("foreseen", lambda row: row.foreseen),
        ("fast", lambda row: row.seconds),
        ("slow", lambda row: -row.seconds),
    ],
)
def test_each_order_puts_the_right_worker_first(snapshot: ModelSnapshot, order: str, key: Callable[..., float]) -> None:
    values = [key(row) for row in workers_page(snapshot.project, snapshot, AskedOfWorkers(order=order)).rows]
    assert values == sorted(values)


def test_search_finds_codes_and_answers_and_the_address_keeps_it(
    snapshot: ModelSnapshot, owner: User, log_in: Callable[[User], Client]
) -> None:
    client = log_in(owner)
    code = Worker.objects.filter(project=snapshot.project).first().code
    assert [row.worker.code for row in client.get(f"/projects/pets/workers/?q={code[:8]}").context["page"].rows] == [
        code
    ]
    found = client.get("/projects/pets/workers/?q=stories&sort=fast&trait=camp").context["page"]
    assert (len(found.rows), found.asked.order, found.asked.trait) == (8, "fast", "camp")
    assert "No worker matches" in client.get("/projects/pets/workers/?q=zzzz").text
    assert client.get("/projects/pets/workers/?page=-1&sort=password&trait=%00").status_code == 200


def test_the_file_has_every_worker_and_the_audit_knows(
    snapshot: ModelSnapshot, analyst: User, log_in: Callable[[User], Client]
) -> None:
    rows = list(csv.DictReader(io.StringIO(log_in(analyst).get("/projects/pets/workers.csv").text)))
    shown = {row.worker.code: row for row in workers_page(snapshot.project, snapshot, AskedOfWorkers()).rows}
    assert {row["worker"] for row in rows} == set(shown)
    assert all(float(row["agrees_with_consensus"]) == shown[row["worker"]].agreement for row in rows)
    assert all(float(row["x"]) == shown[row["worker"]].place.x for row in rows)
    assert AuditEntry.objects.filter(action="exported workers", user=analyst).exists()


def test_before_the_first_version_the_workers_are_listed(
    project: Project, worker: Worker, judge: Callable[..., object], owner: User, log_in: Callable[[User], Client]
) -> None:
    judge(worker, "left")
    page = log_in(owner).get("/projects/pets/workers/").context["page"]
    assert [(row.worker, row.judgements, row.agreement) for row in page.rows] == [(worker, 1, None)]
    assert page.pictures == []


@pytest.mark.parametrize("learned", [False, True])
def test_skipped_pairs_are_not_counted_as_judgements(
    project: Project, worker: Worker, judge: Callable[..., object], learned: bool
) -> None:
    for choice in ("left", "skip", "right"):
        judge(worker, choice)
    version = run_one("test") if learned else None
    assert [row.judgements for row in workers_page(project, version, AskedOfWorkers()).rows] == [2]


def test_what_was_taken_back_before_the_version_is_not_counted(
    project: Project, worker: Worker, judge: Callable[..., object]
) -> None:
    receipts = [judge(worker, "left") for _ in range(3)]
    services.retract(worker=worker, uuid=receipts[2].judgement.uuid, judgement=receipts[2].judgement.uuid)
    version = run_one("test")
    assert learned_from(version).count() == 2
    assert tally_of(version).answers.tolist() == [2]


def test_as_many_statements_for_three_times_the_study(
    snapshot: ModelSnapshot, project: Project, owner: User, log_in: Callable[[User], Client]
) -> None:
    grown_twin(project, owner)
    client = log_in(owner)
    assert statements(client, "/projects/pets/workers/") == statements(client, "/projects/twin/workers/") < 15


def test_medians_are_those_of_numpy_and_none_where_nothing_is_known() -> None:
    u, values = np.array([2, 0, 0, 2, 2, 0, 2]), np.array([5.0, 1, 3, 7, np.nan, 2, 1])
    found = medians(u, values, 4)
    assert found[[0, 2]].tolist() == [2.0, 5.0]
    assert np.isnan(found[[1, 3]]).all()


def test_surprise_is_in_bits_and_never_infinite() -> None:
    found = surprise(np.array([0.5, 0.25, 0.25, 1.0, 0.5]), np.array([1.0, 1.0, 0.0, 0.0, 0.5]))
    np.testing.assert_allclose(found[[0, 1, 2, 4]], [1.0, 2.0, -np.log2(0.75), 1.0])
    assert np.isfinite(found).all()
