"""Exports by the API: the same bytes as everywhere, small ones at once, large ones when they are done."""

import hashlib
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from annotation import services, throttling
from annotation.models import Project, Worker
from modelling import exporting
from modelling.exporting import requests
from modelling.models import ExportJob
from tests.modelling.studies import make_version

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
def test_a_small_file_is_the_one_that_the_page_gives_and_names_its_point(olga: Client, project: Project) -> None:
    answer = olga.get(f"{EXPORTS}/ranking.csv")
    table = exporting.table(project, "ranking")
    assert body(answer) == b"".join(exporting.pieces(table, "csv"))
    assert answer["Content-Disposition"] == 'attachment; filename="pets-ranking-seq10-v1.csv"'
    same = olga.get(f"{EXPORTS}/ranking.csv", headers={"if-none-match": answer["ETag"]})
    assert same.status_code == 304
    assert project.audit.filter(action="exported ranking").count() == 1


@pytest.mark.database
@pytest.mark.usefixtures("judged")
def test_a_person_has_so_many_files_in_an_hour(olga: Client, project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """S21. What has not changed, and a file that is being made already, does not count."""
    monkeypatch.setattr(throttling, "EXPORTS", 1)
    monkeypatch.setattr(requests, "LARGE_PER_HOUR", 2)
    first = olga.get(f"{EXPORTS}/ranking.csv")
    assert olga.get(f"{EXPORTS}/ranking.csv", headers={"if-none-match": first["ETag"]}).status_code == 304
    small = olga.get(f"{EXPORTS}/ranking.csv")
    asked = [olga.post(EXPORTS, {"what": what}, content_type="application/json") for what in LARGE]
    assert [answer.status_code for answer in asked] == [202, 202, 202, 429]
    for refused in (small, asked[-1]):
        assert (refused.status_code, refused.json()["code"]) == (429, "too_many_files")
        assert 0 < int(refused["Retry-After"]) <= 3601
    assert "2 such files in an hour" in asked[-1].json()["title"]
    assert ExportJob.objects.filter(project=project).count() == 2
    ExportJob.objects.update(asked_at=timezone.now() - timedelta(minutes=61))
    assert olga.post(EXPORTS, {"what": "workers"}, content_type="application/json").status_code == 202


@pytest.mark.usefixtures("judged")
def test_what_cannot_be_exported_is_refused_in_words(olga: Client) -> None:
    refused = {"nothing.csv": 404, "ranking.xlsx": 404, "ranking.csv?version=9": 404, "judgements.csv?as_of=99": 404}
    refused |= {"archive.zip": 409, "ranking.csv?as_of=-1": 400, "ranking.csv?version=0": 400}
    for end, status in refused.items():
        answer = olga.get(f"{EXPORTS}/{end}")
        assert (answer.status_code, answer["Content-Type"]) == (status, "application/problem+json"), end
    asked = olga.post(EXPORTS, {"what": "crowd-kit", "format": "parquet"}, content_type="application/json")
    assert (asked.status_code, asked.json()["field"]) == (422, "what")


@pytest.mark.usefixtures("judged")
def test_a_large_file_is_asked_for_and_fetched_when_it_is_done(olga: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "AT_ONCE", 2)
    assert olga.get(f"{EXPORTS}/judgements.jsonl").status_code == 409
    asked, again = (
        olga.post(EXPORTS, {"what": "judgements", "format": "jsonl"}, content_type="application/json") for _ in "12"
    )
    assert (asked.status_code, asked.json()["state"]) == (202, "waiting")
    assert again.json() == asked.json()
    where = f"{EXPORTS}/files/{asked.json()['number']}"
    assert olga.get(f"{where}/content").status_code == 409
    assert requests.export_one("test")
    told, content = olga.get(where).json(), body(olga.get(f"{where}/content"))
    assert (told["state"], told["bytes"]) == ("done", len(content))
    assert told["sha256"] == hashlib.sha256(content).hexdigest()
    assert content.count(b"\n") == 3


@pytest.mark.usefixtures("judged")
def test_a_file_whose_words_were_changed_without_an_event_is_not_called_unchanged(
    olga: Client, project: Project
) -> None:
    before = olga.get(f"{EXPORTS}/arena.json")
    services.change_project(project=project, user=None, changes={"question": "Which is kinder?"})
    after = olga.get(f"{EXPORTS}/arena.json", headers={"if-none-match": before["ETag"]})
    assert after.status_code == 200
    assert b"Which is kinder?" in body(after)


def test_what_an_erased_person_took_along_is_not_told(
    olga: Client, project: Project, worker: Worker, judge: Callable[..., services.Receipt]
) -> None:
    gone = judge(worker, "left").judgement
    stays = judge(services.enrol(project=project), "left").judgement
    services.erase_worker(worker=worker, user=None, remove_judgements=True)
    log = "/api/v1/projects/pets/judgements"
    assert [row["uuid"] for row in olga.get(log).json()["rows"]] == [str(stays.uuid)]
    assert [olga.get(f"{log}/{each.uuid}").status_code for each in (gone, stays)] == [404, 200]
