"""Versions of a small study that wants them refined: marked, and the same to the last digit when read again."""

from collections.abc import Callable

import numpy as np
import pytest
from django.test import Client
from django.urls import reverse

from annotation.models import Project, User, Worker
from annotation.services import Receipt
from modelling.crowdgppl import refining, sampling
from modelling.exporting.archive import manifest_of
from modelling.forms import HELP
from modelling.models import ModelSnapshot
from modelling.snapshots import load_fitted
from modelling.updating import _remembered, run_one
from modelling.verification import problems_of, rebuild

from .histories import four_workers

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
