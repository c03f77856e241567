"""A study whose engine is the published algorithm, from its settings to a reproduced archive."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from annotation import services
from annotation.models import Item, Project, User, Worker
from annotation.storage import event_log
from modelling.engines import PAPER_SVI, PaperSVIEngine
from modelling.exports.catalogue import TABLES
from modelling.models import ModelSnapshot, ScoreboardEntry, SettingsSearch, UpdateState, WorkerAssessment
from modelling.training.settings import InvalidSettings, ModelSettings
from modelling.training.snapshots import load_fitted_model
from modelling.training.verification import find_problems, rebuild
from modelling.updater import update
from modelling.updater.settings_search import (
    build_candidates,
    evaluate_candidate,
    load_search_data,
    request_search,
)
from modelling.web.api.tokens import create_token
from tests.modelling.exports.samples import csv_rows, export_bytes, retract
from tests.modelling.exports.test_archive import files_in, reproduced
from tests.modelling.samples.cached_fits import shared_fits
from tests.modelling.samples.two_camps import make_study

pytestmark = pytest.mark.django_db

PUBLISHED = {"engine": PAPER_SVI, "n_components": 3}
PAGES = (
    "progress", "ranking", "workers", "exports", "new_text", "claims", "reliability", "designer", "suggestions",
    "stopping", "pairs", "components", "model", "compare", "model_settings", "ranking_csv", "workers_csv",
    "components_csv",
)  # fmt: skip


@pytest.fixture
def study(project: Project, judge: Callable[..., services.Receipt], monkeypatch: pytest.MonkeyPatch) -> Project:
    """Two camps of workers; a refit, then a step with a new worker and a retraction by a restarted updater."""
    Project.objects.update(model_settings=PUBLISHED, suggestions="personal", redundancy=50)
    project.refresh_from_db()
    workers = make_study(project, n_items=9, n_workers=8, n_labels=240)
    with shared_fits():
        assert update.update_one("test") is not None
    monkeypatch.setattr(update, "_cache", {})
    newcomer = services.enrol(project=project, traits={"camp": "facts", "age": 40})
    for worker in (workers[0], newcomer, newcomer):
        judge(worker, "left")
    retract(project, sequence=2)
    assert update.update_one("test") is not None
    project.refresh_from_db()
    return project


def versions(project: Project) -> list[ModelSnapshot]:
    return list(ModelSnapshot.objects.filter(project=project).order_by("number"))


def test_the_study_is_fitted_and_updated_by_its_engine(study: Project) -> None:
    refit, step = versions(study)
    assert [refit.kind, step.kind] == ["refit", "step"]
    assert refit.settings["engine"] == step.settings["engine"] == PAPER_SVI
    assert refit.lower_bound is None
    assert refit.diagnostics["components"] == 3
    fitted = load_fitted_model(step)
    assert isinstance(fitted.model, PaperSVIEngine)
    assert (fitted.model.n_users_, fitted.model.n_updates) == (9, 1)
    assert step.included == refit.included + 2
    assert ScoreboardEntry.objects.filter(snapshot=step, method="personal", labels=3).exists()
    assert not list(find_problems(study))
    assert [problem for _, problem in rebuild(study, 5)] == ["", ""]


def test_the_two_camps_are_found(study: Project) -> None:
    step = versions(study)[-1]
    fitted = load_fitted_model(step)
    F = fitted.model.predict_utilities(items=fitted.ranked)
    facts, stories = F[:, 0:8:2].mean(axis=1), F[:, 1:8:2].mean(axis=1)
    texts = [Item.objects.get(pk=pk).text for pk in fitted.item_ids[fitted.ranked].tolist()]
    gap = dict.fromkeys(("Evidence", "Stories"), 0.0)
    for text, difference in zip(texts, facts - stories, strict=True):
        if text.split()[0] in gap:
            gap[text.split()[0]] += difference
    assert gap["Evidence"] > gap["Stories"]


def test_every_page_works_and_says_what_is_missing(study: Project, owner: User, log_in: Callable[..., Client]) -> None:
    client = log_in(owner)
    pages = {name: client.get(reverse(f"modelling:{name}", args=[study.slug])) for name in PAGES}
    assert {name: page.status_code for name, page in pages.items() if page.status_code != 200} == {}
    worker, item = Worker.objects.filter(project=study).first(), Item.objects.filter(project=study, active=True).first()
    for name, key in (("version", 2), ("version", 1), ("worker", worker.code), ("item", item.pk)):
        answer = client.get(reverse(f"modelling:{name}", args=[study.slug, key]))
        assert answer.status_code == 200
        pages[name] = answer
    text = client.get(reverse("modelling:new_text", args=[study.slug]), {"text": "Evidence and numbers, once more."})
    assert text.status_code == 200
    assert b"no worker assessments and no lower bound" in pages["version"].content
    assert b"crowdGPPL as published" in pages["version"].content
    assert b"gives no worker assessments" in pages["workers"].content
    assert b"fitted with 3 components" in pages["components"].content
    assert b"Only components that the judgements support" not in pages["components"].content
    assert b"crowdGPPL as published, each worker&#x27;s own preferences" in pages["model"].content
    assert not WorkerAssessment.objects.exists()


def test_exports_the_report_and_the_api_name_the_engine(study: Project, owner: User) -> None:
    _token, secret = create_token(user=owner, name="test", scope="read", days=7, project=study)
    script = Client(headers={"authorization": f"Bearer {secret}"})
    for what in TABLES:
        assert export_bytes(study, what)
    assert len(csv_rows(export_bytes(study, "utilities"))) == 9 * 9
    report = export_bytes(study, "report", "html").decode()
    assert "crowdGPPL as published: Algorithm 2" in report
    assert "Only components that the judgements support" not in report
    version = script.get(f"/api/v1/projects/{study.slug}/snapshots/2").json()
    assert version["settings"]["engine"] == PAPER_SVI
    assert version["lower_bound"] is None
    a, b = Item.objects.filter(project=study, active=True)[:2]
    body = {"pairs": [{"a": a.key, "b": b.key}]}
    predicted = script.post(f"/api/v1/projects/{study.slug}/predict", body, content_type="application/json").json()
    assert 0 < predicted["pairs"][0]["probability"] < 1


@pytest.mark.slow
def test_an_archive_reproduces_the_ranking(study: Project, tmp_path: Path) -> None:
    event_log.raise_inputs_revision(study.pk)  # a refit: a step is not what an archive repeats
    assert update.update_one("test") is not None
    path = tmp_path / "study.zip"
    path.write_bytes(export_bytes(study, "archive"))
    assert json.loads(files_in(path)["manifest.json"])["version"]["settings"]["engine"] == PAPER_SVI
    result = reproduced(path, tmp_path / "folder")
    assert result.agrees
    assert result.max_difference == 0.0


def test_changing_the_engine_fits_from_scratch(
    study: Project, owner: User, log_in: Callable[..., Client], judge: Callable[..., services.Receipt]
) -> None:
    services.change_project(project=study, user=owner, changes={"model_settings": {"n_components": 3}})
    snapshot = update.update_one("test")
    assert snapshot is not None
    assert snapshot.kind == "refit"
    assert not snapshot.as_published
    assert WorkerAssessment.objects.filter(snapshot=snapshot).exists()
    scoreboard = log_in(owner).get(reverse("modelling:model", args=[study.slug]))
    assert b"crowdGPPL as published, the consensus" in scoreboard.content, "so far only that engine has predicted"
    services.change_project(project=study, user=owner, changes={"redundancy": 60})
    for _ in range(2):
        judge(Worker.objects.filter(project=study).first(), "left")
    assert update.update_one("test") is not None
    scoreboard = log_in(owner).get(reverse("modelling:model", args=[study.slug]))
    assert b"this study&#x27;s engines, the consensus" in scoreboard.content
    changes = log_in(owner).get(reverse("modelling:compare", args=[study.slug]), {"from": 2, "to": 3})
    assert b"crowdGPPL as published (stochastic variational inference)" in changes.content


def test_weights_by_consistency_are_refused(project: Project, owner: User, log_in: Callable[..., Client]) -> None:
    with pytest.raises(InvalidSettings, match="does not weight workers"):
        ModelSettings.from_dict({"engine": PAPER_SVI, "reliability": True})
    with pytest.raises(InvalidSettings, match="crowdgppl, paper_svi"):
        ModelSettings.from_dict({"engine": "gibbs"})
    page = reverse("modelling:model_settings", args=[project.slug])
    client = log_in(owner)
    sent = {
        **ModelSettings(engine=PAPER_SVI, reliability=False).as_dict(), "update_batch": 1, "scoreboard_methods": []
    }  # fmt: skip
    refused = client.post(page, {**sent, "reliability": "on"})
    assert refused.status_code == 422
    assert b"does not weight workers" in refused.content
    assert client.post(page, {**sent, "reliability": ""}).status_code == 302
    project.refresh_from_db()
    assert project.model_settings == {"engine": PAPER_SVI}


def test_too_many_independent_items_are_refused(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    Project.objects.update(model_settings={**PUBLISHED, "kernel": "none"})
    make_study(project, n_items=9, n_workers=4, n_labels=60)
    assert update.update_one("test") is not None, "a few independent items can be fitted"
    monkeypatch.setattr("modelling.training.size.MAX_INDEPENDENT_ITEMS", 5)
    changed = {**PUBLISHED, "kernel": "none", "seed": 2}
    services.change_project(project=project, user=None, changes={"model_settings": changed})
    assert update.update_one("test") is None
    assert "at most 500 items without item similarity" in UpdateState.objects.get(project=project).message


def test_a_large_study_is_fitted_from_its_rows_with_the_same_result(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    Project.objects.update(model_settings=PUBLISHED)
    make_study(project, n_items=9, n_workers=6, n_labels=120)
    in_memory = update.update_one("test")
    monkeypatch.setattr(update, "IN_MEMORY", 10)
    event_log.raise_inputs_revision(project.pk)
    from_rows = update.update_one("test")
    assert in_memory is not None
    assert from_rows is not None
    first, second = (load_fitted_model(each).model.to_state() for each in (in_memory, from_rows))
    for name in first:
        np.testing.assert_array_equal(first[name], second[name], err_msg=name)


@pytest.mark.slow
def test_the_search_for_settings_fits_the_engine(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Candidates that the engine cannot fit are left out."""
    current = ModelSettings.from_dict(PUBLISHED)
    make_study(project, n_items=9, n_workers=4, n_labels=80)
    request_search(project=project, user=None)
    search = SettingsSearch.objects.get()
    data = load_search_data(search.pk, search.requested_at, 0)
    assert any(each.settings.kernel == "none" for each in build_candidates(current, data))
    monkeypatch.setattr("modelling.training.size.MAX_INDEPENDENT_ITEMS", 5)
    candidates = list(build_candidates(current, data))
    assert all(each.settings.engine == PAPER_SVI for each in candidates)
    assert not any(each.settings.kernel == "none" for each in candidates)
    assert evaluate_candidate(candidates[0], data)


def test_evaluate_names_the_engine(study: Project, capsys: pytest.CaptureFixture[str]) -> None:
    call_command("evaluate", study.slug, "--way", "leave-out", "--parts", "2", "--methods", "bradley_terry")
    printed = capsys.readouterr().out
    assert "paper SVI, personal" in printed
    assert "crowdGPPL" not in printed
