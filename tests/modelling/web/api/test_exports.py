"""Exports by the API: the same bytes as on the page; small files streamed, large ones requested."""

import hashlib
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from annotation import services
from annotation.http import throttling
from annotation.models import Project, Worker
from modelling.dashboards.report.document import render_report
from modelling.exports import jobs, service
from modelling.models import ExportJob
from tests.modelling.exports.samples import export_bytes
from tests.modelling.samples.studies import make_version
from tests.modelling.samples.two_camps import make_fitted_study

pytestmark = pytest.mark.django_db
EXPORTS = "/api/v1/projects/pets/exports"
LARGE = ("ranking", "judgements", "ranking", "workers")


def body(answer: object) -> bytes:
    return b"".join(answer.streaming_content)


@pytest.fixture
def judged(project: Project, worker: Worker, judge: Callable[..., services.Receipt]) -> None:
    for choice in ("left", "right", "tie"):
        judge(worker, choice)
    make_version(project, 1)


@pytest.mark.usefixtures("judged")
def test_a_small_file_equals_that_of_the_page_and_names_its_point(olga: Client, project: Project) -> None:
    answer = olga.get(f"{EXPORTS}/ranking.csv")
    assert body(answer) == export_bytes(project, "ranking", "csv")
    assert answer["Content-Disposition"] == 'attachment; filename="pets-ranking-seq10-v1.csv"'
    same = olga.get(f"{EXPORTS}/ranking.csv", headers={"if-none-match": answer["ETag"]})
    assert same.status_code == 304
    assert project.audit.filter(action="exported ranking").count() == 1


@pytest.mark.both_databases
@pytest.mark.usefixtures("judged", "frozen_throttle_clock")
def test_the_hourly_limits_apply(olga: Client, project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unchanged files and repeated requests do not count."""
    monkeypatch.setattr(throttling, "MAX_EXPORTS", 1)
    monkeypatch.setattr(service, "JOBS_PER_HOUR", 2)
    first = olga.get(f"{EXPORTS}/ranking.csv")
    assert olga.get(f"{EXPORTS}/ranking.csv", headers={"if-none-match": first["ETag"]}).status_code == 304
    small = olga.get(f"{EXPORTS}/ranking.csv")
    requested = [olga.post(EXPORTS, {"what": what}, content_type="application/json") for what in LARGE]
    assert [response.status_code for response in requested] == [202, 202, 202, 429]
    for refused in (small, requested[-1]):
        assert (refused.status_code, refused.json()["code"]) == (429, "too_many_files")
        assert 0 < int(refused["Retry-After"]) <= 3601
    assert "limit is 2 files per person and hour" in requested[-1].json()["title"]
    assert ExportJob.objects.filter(project=project).count() == 2
    ExportJob.objects.update(requested_at=timezone.now() - timedelta(minutes=61))
    assert olga.post(EXPORTS, {"what": "workers"}, content_type="application/json").status_code == 202


@pytest.mark.usefixtures("judged")
def test_invalid_exports_are_refused_with_a_message(olga: Client) -> None:
    refused = {"nothing.csv": 404, "ranking.xlsx": 404, "ranking.csv?version=9": 404, "judgements.csv?as_of=99": 404}
    refused |= {"archive.zip": 409, "ranking.csv?as_of=-1": 400, "ranking.csv?version=0": 400}
    for end, status in refused.items():
        answer = olga.get(f"{EXPORTS}/{end}")
        assert (answer.status_code, answer["Content-Type"]) == (status, "application/problem+json"), end
    requested = olga.post(EXPORTS, {"what": "crowd-kit", "format": "parquet"}, content_type="application/json")
    assert (requested.status_code, requested.json()["field"]) == (422, "what")


@pytest.mark.usefixtures("judged")
def test_a_large_file_is_requested_and_fetched_when_done(olga: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "MAX_STREAMED_ROWS", 2)
    assert olga.get(f"{EXPORTS}/judgements.jsonl").status_code == 409
    requested, again = (
        olga.post(EXPORTS, {"what": "judgements", "format": "jsonl"}, content_type="application/json") for _ in "12"
    )
    assert (requested.status_code, requested.json()["state"]) == (202, "waiting")
    assert (requested.json()["progress"], requested.json()["message"]) == (
        requested.json()["share"],
        requested.json()["words"],
    )
    assert again.json() == requested.json()
    where = f"{EXPORTS}/files/{requested.json()['number']}"
    assert olga.get(f"{where}/content").status_code == 409
    assert jobs.run_export_job("test")
    job, content = olga.get(where).json(), body(olga.get(f"{where}/content"))
    assert (job["state"], job["bytes"]) == ("done", len(content))
    assert job["sha256"] == hashlib.sha256(content).hexdigest()
    assert content.count(b"\n") == 3


@pytest.mark.usefixtures("judged")
def test_a_changed_setting_changes_the_etag(olga: Client, project: Project) -> None:
    before = olga.get(f"{EXPORTS}/arena.json")
    services.change_project(project=project, user=None, changes={"question": "Which is kinder?"})
    after = olga.get(f"{EXPORTS}/arena.json", headers={"if-none-match": before["ETag"]})
    assert after.status_code == 200
    assert b"Which is kinder?" in body(after)


def test_data_of_erased_people_are_not_returned(
    olga: Client, project: Project, worker: Worker, judge: Callable[..., services.Receipt]
) -> None:
    erased = judge(worker, "left").judgement
    kept = judge(services.enrol(project=project), "left").judgement
    services.erase_worker(worker=worker, user=None, remove_judgements=True)
    log = "/api/v1/projects/pets/judgements"
    assert [row["uuid"] for row in olga.get(log).json()["rows"]] == [str(kept.uuid)]
    assert [olga.get(f"{log}/{each.uuid}").status_code for each in (erased, kept)] == [404, 200]


def test_the_report_is_streamed_as_html_and_requested_as_pdf(olga: Client, project: Project) -> None:
    snapshot = make_fitted_study(project)
    report = olga.get(f"{EXPORTS}/report.html")
    assert body(report).decode() == render_report(snapshot)
    assert olga.get(f"{EXPORTS}/report.html", headers={"if-none-match": report["ETag"]}).status_code == 304
    Project.objects.filter(pk=project.pk).update(title="Animals")
    assert olga.get(f"{EXPORTS}/report.html", headers={"if-none-match": report["ETag"]}).status_code == 200
    refused = olga.get(f"{EXPORTS}/report.pdf")
    assert refused.status_code in (404, 409)  # 404 where no browser is installed
