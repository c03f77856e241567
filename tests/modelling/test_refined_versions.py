"""Versions of a small study that wants them refined: marked, and the same to the last digit when read again."""

from collections.abc import Callable

import numpy as np
import pytest
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse

from annotation.access import remember_worker
from annotation.models import Judgement, Project, User, Worker
from annotation.services import Receipt
from modelling.crowdgppl import refining, sampling
from modelling.dashboards.axes import axes_of
from modelling.dashboards.own_view import own_view
from modelling.dashboards.worker import AskedOfWorker, worker_page
from modelling.dashboards.workers import workers_of_project
from modelling.exporting.archive import manifest_of
from modelling.forms import HELP
from modelling.models import ModelSnapshot
from modelling.snapshots import load_fitted
from modelling.updating import _remembered, run_one
from modelling.verification import problems_of, rebuild

from .histories import four_workers
from .two_camps import estimator_of, fitted_study

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few draws are enough here."""
    for name, value in {"WARM_UP": 20, "ROUND": 20, "MOST_ROUNDS": 1, "ADMISSIBLE_R_HAT": 9.0, "LEAST": 0.0}.items():
        monkeypatch.setattr(sampling, name, value)


@pytest.fixture
def crowd(project: Project, judge: Callable[..., Receipt]) -> list[Worker]:
    """Four workers with five answers each, in a study that wants its versions refined."""
    Project.objects.update(redundancy=100, update_batch=1, model_settings={"refine": True, "n_components": 2})
    project.refresh_from_db()
    return four_workers(project, judge)


def published() -> ModelSnapshot:
    snapshot = run_one("test")
    assert snapshot is not None
    return snapshot


@pytest.mark.usefixtures("crowd")
def test_a_version_is_refined_where_the_study_wants_it_and_says_so(
    project: Project, owner: User, log_in: Callable[[User], Client]
) -> None:
    version = published()
    assert version.refined
    assert version.diagnostics["refined"]["trajectories"] == 20
    model = load_fitted(version).model
    assert model.refined_ is not None
    told = list(version.scores.order_by("item_id").values_list("mean", "sd"))
    mean, _ = model.predict_consensus(items=load_fitted(version).ranked, return_cov=True)
    assert np.array_equal([each for each, _ in told], mean)
    text = log_in(owner).get(reverse("modelling:version", args=[project.slug, version.number])).text
    assert '<span class="badge">refined</span>' in text
    assert "R-hat of the chains, at most" in text
    assert manifest_of(version, "")["version"]["refined"] is True


def test_news_are_refined_again_and_every_version_can_be_learned_again(
    project: Project, crowd: list[Worker], judge: Callable[..., Receipt]
) -> None:
    first = published()
    _remembered.clear()
    judge(crowd[0], "left")
    step = published()
    assert (first.refined, step.refined) == (True, True)
    assert step.kind == ModelSnapshot.Kind.STEP
    assert not list(problems_of(project))
    assert [problem for _, problem in rebuild(project, 2)] == ["", ""]


@pytest.mark.usefixtures("crowd")
def test_a_study_that_has_grown_too_large_is_not_refined_and_the_version_says_why(
    project: Project, owner: User, log_in: Callable[[User], Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refining, "MOST_LABELS", 19)
    version = published()
    assert not version.refined
    assert "refined" not in version.diagnostics
    text = log_in(owner).get(reverse("modelling:version", args=[project.slug, version.number])).text
    assert "Refining is for small data: there are 20 labels, and it takes at most 19." in text
    assert '<span class="badge">refined</span>' not in text


@pytest.mark.usefixtures("crowd")
def test_without_the_setting_nothing_is_refined() -> None:
    Project.objects.update(model_settings={})
    version = published()
    assert not version.refined
    assert load_fitted(version).model.refined_ is None


def test_the_help_tells_how_many_items_can_be_refined() -> None:
    workers, limits = 10, []
    for components in (10, 5):
        by_unknowns = (refining.MOST_UNKNOWNS - workers * components) // (components + 1)
        limits.append(min(by_unknowns, refining.MOST_CELLS // workers))
    told = "with {} workers up to {} items at 10 components, up to {} at 5".format(workers, *limits)
    assert told in str(HELP["refine"])
    for size in (refining.MOST_LABELS, refining.MOST_CELLS, refining.MOST_UNKNOWNS):
        assert f"{size:,}" in str(HELP["refine"])


STUDIES = {
    "texts": {},
    "more items than inducing points": {"n_inducing_items": 10},
    "each item alone": {"kernel": "none"},
    "one ranking for all": {"n_components": 0},
}


@pytest.fixture(params=STUDIES)
def version(request: pytest.FixtureRequest, project: Project) -> ModelSnapshot:
    """The refined first version of a small study of two camps."""
    settings = {"refine": True, "n_components": 3, **STUDIES[request.param]}
    Project.objects.update(update_batch=1, model_settings=settings)
    project.refresh_from_db()
    made = fitted_study(project, n_items=14, n_workers=4, n_labels=80)
    assert made.refined
    return made


def test_every_page_of_a_refined_study_answers_and_agrees_with_the_estimator(
    version: ModelSnapshot, owner: User, log_in: Callable[[User], Client]
) -> None:
    project, client = version.project, log_in(owner)
    worker, item = Worker.objects.filter(project=project).first(), version.scores.first().item
    root = f"/projects/{project.slug}"
    pages = ["ranking/", "ranking.csv", f"ranking/{item.pk}/", f"ranking/{item.pk}/judgements.csv", "components/"]
    pages += [
        "components.csv",
        "workers/",
        "workers.csv",
        "activity/",
        f"pairs/?items=text-000,text-001&worker={worker.code}",
    ]
    pages += [
        f"workers/{worker.code}/{part}" for part in ("?a=text-000&b=text-001", "preferences.csv", "judgements.csv")
    ]
    assert {page: client.get(f"{root}/{page}").status_code for page in pages} == dict.fromkeys(pages, 200)
    asked = client.post(f"{root}/new-argument/", {"text": "Evidence and numbers, once more."})
    assert asked.status_code == 200
    assert ("before refining" in client.get(f"{root}/components/").text) == bool(axes_of(version).axes)
    Worker.objects.filter(pk=worker.pk).update(state="finished")
    browser, response = Client(), HttpResponse()
    remember_worker(response, worker)
    browser.cookies.update(response.cookies)
    assert browser.get(f"/s/{project.slug}/own-view/").status_code == 200
    for each in Worker.objects.filter(project=project):
        compare_with_the_estimator(version, each)


def compare_with_the_estimator(version: ModelSnapshot, worker: Worker) -> None:
    """The worker's facts, table row, listed answers and own view count alike, and every difference adds up."""
    page, (model, stored) = worker_page(version, worker, AskedOfWorker()), estimator_of(version)
    u, at = stored["worker_ids"].tolist().index(worker.pk), stored["item_ids"].tolist().index
    given = Judgement.objects.filter(worker=worker).exclude(choice="tie")
    a, b = (np.array([at(each) for each in given.values_list(name, flat=True)]) for name in ("item_lo", "item_hi"))
    lo = np.array([choice == "lo" for choice in given.values_list("choice", flat=True)])
    foreseen = int(((model.predict_proba(np.full(len(a), u), a, b) > 0.5) == lo).sum())
    agreed = int(((model.predict_consensus_proba(a, b) > 0.5) == lo).sum())
    row = next(
        row for row in workers_of_project(version.project, version, axes_of(version)) if row.worker.pk == worker.pk
    )
    assert (page.fit.foreseen, page.fit.agreed, page.fit.decided) == (foreseen, agreed, len(a))
    assert (row.foreseen, row.agreement) == (foreseen / len(a), agreed / len(a))
    assert own_view(version, worker).agreed == agreed
    assert sum(each.own > 0.5 for each in page.answers if not each.tie) == foreseen
    F, t = model.predict_utilities()[:, u], model.predict_consensus()
    plain = model.unrefined()
    fit = plain.predict_utilities()[:, u] - plain.predict_consensus()
    for each in page.preferences:
        place = at(each.score.item_id)
        assert each.difference == pytest.approx(F[place] - t[place])
        assert each.refining == pytest.approx(F[place] - t[place] - fit[place])
        parts = sum(cause.value for cause in each.causes) + each.rest + each.refining
        assert parts == pytest.approx(each.difference)
