"""The workers page: the map with its ellipses, agreement, fit to the model and the CSV file."""

import csv
import io
from collections.abc import Callable

import numpy as np
import pytest
from django.test import Client

from annotation import services
from annotation.models import AuditEntry, Judgement, Project, User, Worker
from modelling.dashboards.common.judgements import group_medians, surprisal, worker_tally
from modelling.dashboards.workers.listing import WorkersQuery, workers_page
from modelling.dashboards.workers.worker_map import uncertainty_ellipses
from modelling.models import ComponentNumbers, ModelSnapshot
from modelling.training.components.axes import load_component_axes
from modelling.training.votes import training_judgements
from modelling.updater.update import update_one
from tests.modelling.samples.two_camps import load_estimator, make_fitted_study, make_study
from tests.modelling.samples.two_camps import snapshot as snapshot

pytestmark = pytest.mark.django_db

SIDES = {"lo": 1.0, "hi": -1.0}


def test_every_number_is_the_estimators(snapshot: ModelSnapshot) -> None:
    model, stored = load_estimator(snapshot)
    page = workers_page(snapshot.project, snapshot, WorkersQuery())
    item_at = {int(pk): place for place, pk in enumerate(stored["item_ids"])}
    strongest = np.argsort(-model.component_variances_)[:2]
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
        assert row.agreement.n == row.explained.n == len(sides)
        assert row.agreement.value == np.mean([np.sign(consensus[a] - consensus[b]) == side for a, b, side in sides])
        assert row.explained.value == np.mean([np.sign(F[a, u] - F[b, u]) == side for a, b, side in sides])
        assert row.seconds == np.median([each.response_ms for each in given]) / 1000
        shown = [row.position.x, row.position.y] if len(strongest) == 2 else [row.position.x]
        np.testing.assert_allclose(shown, signs * model.user_components_[strongest, u], rtol=1e-9)


def test_an_ellipse_contains_95_percent_of_the_posterior(project: Project) -> None:
    """Half of the samples from the posterior lie inside the outline."""
    Project.objects.filter(pk=project.pk).update(model_settings={"kernel": "none"})
    project.refresh_from_db()
    axes = load_component_axes(make_fitted_study(project, n_tastes=2))
    worker = int(axes.fitted.worker_ids[3])
    outline = uncertainty_ellipses(axes, [worker])[worker]
    cov = axes.user_covariances(axes.strongest[:2])[3]
    centre = axes.users[axes.strongest[:2], 3]
    np.testing.assert_allclose(outline[:-1].mean(axis=0), centre, atol=1e-9)
    distances = np.einsum("ni,ij,nj->n", outline - centre, np.linalg.inv(cov), outline - centre)
    np.testing.assert_allclose(distances, distances[0], rtol=1e-6)
    samples = np.random.default_rng(0).multivariate_normal(np.zeros(2), cov, 20_000)
    inside = np.einsum("ni,ij,nj->n", samples, np.linalg.inv(cov), samples) < distances[0]
    assert abs(inside.mean() - 0.95) < 0.02


def test_the_two_camps_are_separate_and_a_new_worker_is_uncertain(
    project: Project, judge: Callable[..., object]
) -> None:
    make_study(project)
    new_worker = services.enrol(project=project)
    judge(new_worker, "left")
    version = update_one("test")
    rows = workers_page(project, version, WorkersQuery()).rows
    facts, stories = (
        [row.position.x for row in rows if row.worker.traits.get("camp") == camp] for camp in ("facts", "stories")
    )
    assert max(facts) < min(stories) or max(stories) < min(facts)
    uncertain = next(row for row in rows if row.worker == new_worker)
    assert uncertain.position.x_sd > 1.5 * np.median([row.position.x_sd for row in rows])


def test_the_map_has_a_colour_and_a_symbol_for_each_group_of_a_trait(snapshot: ModelSnapshot) -> None:
    page = workers_page(snapshot.project, snapshot, WorkersQuery(trait="camp"))
    points = [trace for trace in page.figures[0].traces if trace["mode"] == "markers"]
    assert [trace["name"] for trace in points] == ["facts", "stories"]
    assert [len(trace["x"]) for trace in points] == [8, 8]
    assert len({(trace["marker"]["color"], trace["marker"]["symbol"]) for trace in points}) == 2
    plain = workers_page(snapshot.project, snapshot, WorkersQuery(trait="nothing of the kind"))
    assert len([trace for trace in plain.figures[0].traces if trace["mode"] == "markers"]) == 1
    assert page.traits == ["age", "camp"]


@pytest.mark.parametrize(
    ("order", "key"),
    [
        ("judgements", lambda row: -row.judgements),
        ("agreement", lambda row: row.agreement.value),
        ("explained", lambda row: row.explained.value),
        ("fast", lambda row: row.seconds),
        ("slow", lambda row: -row.seconds),
    ],
)
def test_each_order_sorts_by_its_column(snapshot: ModelSnapshot, order: str, key: Callable[..., float]) -> None:
    values = [key(row) for row in workers_page(snapshot.project, snapshot, WorkersQuery(order=order)).rows]
    assert values == sorted(values)


def test_search_finds_codes_and_questionnaire_answers(
    snapshot: ModelSnapshot, owner: User, log_in: Callable[[User], Client]
) -> None:
    client = log_in(owner)
    code = Worker.objects.filter(project=snapshot.project).first().code
    assert [row.worker.code for row in client.get(f"/projects/pets/workers/?q={code[:8]}").context["page"].rows] == [
        code
    ]
    found = client.get("/projects/pets/workers/?q=stories&sort=fast&trait=camp").context["page"]
    assert (len(found.rows), found.query.order, found.query.trait) == (8, "fast", "camp")
    assert "No worker matches" in client.get("/projects/pets/workers/?q=zzzz").text
    assert client.get("/projects/pets/workers/?page=-1&sort=password&trait=%00").status_code == 200


def test_the_file_has_every_worker_and_is_audited(
    snapshot: ModelSnapshot, analyst: User, log_in: Callable[[User], Client]
) -> None:
    rows = list(csv.DictReader(io.StringIO(log_in(analyst).get("/projects/pets/workers.csv").text)))
    shown = {row.worker.code: row for row in workers_page(snapshot.project, snapshot, WorkersQuery()).rows}
    assert {row["worker"] for row in rows} == set(shown)
    assert all(float(row["agrees_with_consensus"]) == shown[row["worker"]].agreement.value for row in rows)
    assert all(float(row["explained_by_model"]) == shown[row["worker"]].explained.value for row in rows)
    assert all(float(row["x"]) == shown[row["worker"]].position.x for row in rows)
    assert AuditEntry.objects.filter(action="exported workers", user=analyst).exists()


def test_the_fit_to_the_own_scores_is_not_called_self_consistency(
    snapshot: ModelSnapshot, owner: User, log_in: Callable[[User], Client]
) -> None:
    """The glossary and the page Reliability use that word for agreement with oneself on repeated pairs."""
    client, worker = log_in(owner), Worker.objects.filter(project=snapshot.project).earliest("pk")
    for page in ("workers/", f"workers/{worker.code}/"):
        text = client.get(f"/projects/pets/{page}").text
        assert "Explained by the model" in text, page
        assert "not how reliable the worker is" in text, page
        assert "elf-consistency" not in text, page


def test_before_the_first_version_the_workers_are_listed(
    project: Project, worker: Worker, judge: Callable[..., object], owner: User, log_in: Callable[[User], Client]
) -> None:
    judge(worker, "left")
    page = log_in(owner).get("/projects/pets/workers/").context["page"]
    assert [(row.worker, row.judgements, row.agreement.value) for row in page.rows] == [(worker, 1, None)]
    assert page.figures == []


@pytest.mark.parametrize("learned", [False, True])
def test_skipped_pairs_are_not_counted_as_judgements(
    project: Project, worker: Worker, judge: Callable[..., object], learned: bool
) -> None:
    for choice in ("left", "skip", "right"):
        judge(worker, choice)
    version = update_one("test") if learned else None
    assert [row.judgements for row in workers_page(project, version, WorkersQuery()).rows] == [2]


def test_judgements_retracted_before_the_version_are_not_counted(
    project: Project, worker: Worker, judge: Callable[..., object]
) -> None:
    receipts = [judge(worker, "left") for _ in range(3)]
    services.retract(worker=worker, uuid=receipts[2].judgement.uuid, judgement=receipts[2].judgement.uuid)
    version = update_one("test")
    assert training_judgements(version).count() == 2
    assert worker_tally(version).judgements.tolist() == [2]


def test_group_medians_are_numpys_and_nan_without_values() -> None:
    u, values = np.array([2, 0, 0, 2, 2, 0, 2]), np.array([5.0, 1, 3, 7, np.nan, 2, 1])
    found = group_medians(u, values, 4)
    assert found[[0, 2]].tolist() == [2.0, 5.0]
    assert np.isnan(found[[1, 3]]).all()


def test_surprisal_is_in_bits_and_finite() -> None:
    found = surprisal(np.array([0.5, 0.25, 0.25, 1.0, 0.5]), np.array([1.0, 1.0, 0.0, 0.0, 0.5]))
    np.testing.assert_allclose(found[[0, 1, 2, 4]], [1.0, 2.0, -np.log2(0.75), 1.0])
    assert np.isfinite(found).all()
