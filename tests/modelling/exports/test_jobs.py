"""Large files: requested as a row, written by the updater, restarted after a kill, kept for a few days."""

import hashlib
import os
import subprocess
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from annotation import services
from annotation.models import AuditEntry, Project, User, Worker
from modelling.exports import jobs, service, storage
from modelling.exports.service import ExportRequest
from modelling.exports.tables import base, judgements
from modelling.models import ExportJob, ExportPiece, ModelSnapshot, UpdateState
from modelling.updater import leases
from modelling.updater.leases import LeaseLost
from modelling.updater.loop import run_once
from tests.modelling.exports.samples import export_bytes, fit, odd_study
from tests.modelling.samples.histories import answer

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

PAGE = "/projects/odd/exports/"
CSV = {"what": "judgements", "format": "csv"}


@pytest.fixture
def odd(owner: User, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A study with a lowered limit: files of more than ten rows are written by jobs."""
    monkeypatch.setattr(service, "MAX_STREAMED_ROWS", 10)
    for module in (judgements, base):
        monkeypatch.setattr(module, "PAGE_SIZE", 7)
    project = odd_study()
    services.set_membership(project=project, user=owner, member=owner, role="owner")
    return project


@pytest.fixture(params=["files", "table"])
def stored_in(request: pytest.FixtureRequest, settings) -> str:
    settings.FILE_STORAGE = request.param
    return request.param


@pytest.fixture
def client(odd: Project, owner: User, log_in: Callable[[User], Client]) -> Client:
    return log_in(owner)


def queue_job(project: Project, what: str = "judgements") -> ExportJob:
    job = ExportRequest(project, None, "judgements", "csv").queue().job
    ExportJob.objects.filter(pk=job.pk).update(what=what)
    return job


def test_a_large_file_is_written_by_the_updater_and_downloaded_later(
    odd: Project, stored_in: str, client: Client
) -> None:
    expected = export_bytes(odd, "judgements", "csv")
    for _ in range(2):
        assert client.post(PAGE, CSV).status_code == 302
    job = ExportJob.objects.get()
    assert "waiting for the updater" in client.get(PAGE).text.lower()
    assert client.get(f"{PAGE}{job.pk}/").status_code == 404, "not yet"
    assert jobs.run_export_job("one") is True
    job.refresh_from_db()
    assert (job.state, job.owner, job.bytes) == ("done", "", len(expected))
    assert job.sha256 == hashlib.sha256(expected).hexdigest()
    given = client.get(f"{PAGE}{job.pk}/")
    assert given.getvalue() == expected
    assert given["Content-Disposition"] == 'attachment; filename="odd-judgements-seq42.csv"'
    assert job.name in client.get(PAGE).text
    assert AuditEntry.objects.filter(action="exported judgements").count() == 1
    assert jobs.run_export_job("one") is False


def test_two_files_of_one_study_are_stored_separately(odd: Project, stored_in: str) -> None:
    queued = {name: ExportRequest(odd, None, "judgements", name).queue().job for name in ("csv", "json")}
    while jobs.run_export_job("one"):
        pass
    for name, job in queued.items():
        job.refresh_from_db()
        assert b"".join(storage.read_file(job)) == export_bytes(odd, "judgements", name)


def test_the_page_states_the_hourly_limit(odd: Project, client: Client, monkeypatch) -> None:
    monkeypatch.setattr(service, "JOBS_PER_HOUR", 1)
    assert client.post(PAGE, CSV).status_code == 302
    refused = client.post(PAGE, {**CSV, "format": "json"})
    assert (refused.status_code, ExportJob.objects.count()) == (429, 1)
    assert "The limit is 1 files per person and hour. Try again in 60 minutes. Nothing was exported." in refused.text
    assert int(refused["Retry-After"]) > 3500
    archive = client.post(PAGE, {"what": "archive"})
    assert archive.status_code in (422, 429)


def test_a_file_is_synced_to_disk_in_steps(odd: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that other writes never wait long for the disk."""
    synced: list[int] = []
    monkeypatch.setattr(storage.os, "fsync", lambda file: synced.append(os.fstat(file).st_size))
    monkeypatch.setattr(storage, "publish", lambda draft, path: draft.rename(path))  # without syncing the folder
    monkeypatch.setattr(storage, "SYNC_BYTES", 100)
    job = queue_job(odd)
    assert jobs.run_export_job("one") is True
    job.refresh_from_db()
    assert len(synced) > 2
    assert (sorted(set(synced)), synced[-1]) == (synced[:-1], job.bytes)


def test_the_file_covers_the_point_of_its_request(odd: Project) -> None:
    expected, job = export_bytes(odd, "judgements", "csv"), queue_job(odd)
    answer(odd, [(0, 0, 1, "first")])
    jobs.run_export_job("one")
    job.refresh_from_db()
    assert b"".join(storage.read_file(job)) == expected


def test_a_killed_export_starts_again(odd: Project, stored_in: str, monkeypatch: pytest.MonkeyPatch) -> None:
    job, expected = queue_job(odd), export_bytes(odd, "judgements", "csv")
    ExportJob.objects.update(state="running", owner="killed", lease_until=timezone.now() + timedelta(minutes=5))
    job.refresh_from_db()
    half = storage.open_writer(job)
    monkeypatch.setattr(storage, "PIECE_BYTES", 10)
    half.write(b"half of a file, then the power failed")
    assert jobs.run_export_job("two") is False, "the lease still runs"
    ExportJob.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
    assert jobs.run_export_job("two") is True
    job.refresh_from_db()
    assert b"".join(storage.read_file(job)) == expected
    with pytest.raises(LeaseLost):
        half.finish("late.csv")
    half.close()
    job.refresh_from_db()
    assert (job.state, b"".join(storage.read_file(job))) == ("done", expected)


def test_an_export_of_a_dead_local_process_is_released_at_once(odd: Project) -> None:
    dead = subprocess.Popen(["true"])
    dead.wait()
    host = leases.process_owner().rsplit("-", 2)[0]
    queue_job(odd)
    for pid, free in ((os.getppid(), False), (dead.pid, True)):
        held = {"owner": f"{host}-{pid}", "lease_until": timezone.now() + timedelta(minutes=10)}
        ExportJob.objects.update(state="running", **held)
        leases.release_dead_leases()
        assert jobs.run_export_job("next") == free


def test_progress_is_shown_and_updates_continue_during_an_export(
    odd: Project, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "REPORT_SECONDS", 0.0)
    queue_job(odd)
    seen: list[str] = []

    def look() -> None:
        seen.append(client.get(f"{PAGE}?fragment=1").text)
        if len(seen) == 1:
            fit(odd)

    jobs.run_export_job("one", look)
    assert any('max="100"' in text for text in seen), "a bar with a share"
    assert UpdateState.objects.get(project=odd).current.number == 1


def test_an_updater_that_lost_its_lease_writes_nothing(
    odd: Project, stored_in: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "REPORT_SECONDS", 0.0)
    queue_job(odd)
    jobs.run_export_job("one", lambda: ExportJob.objects.update(owner="two"))
    job = ExportJob.objects.get()
    assert (job.state, job.owner, job.name) == ("running", "two", "")
    assert not list((storage._folder()).glob("*"))
    assert not ExportPiece.objects.exists()


def test_files_are_deleted_after_some_days_or_when_a_person_is_erased(
    odd: Project, stored_in: str, client: Client
) -> None:
    for change in ("time", "erasure"):
        job = queue_job(odd)
        jobs.run_export_job("one")
        assert client.get(f"{PAGE}{job.pk}/").status_code == 200
        if change == "time":
            ExportJob.objects.update(ended_at=timezone.now() - storage.RETENTION - timedelta(seconds=1))
        else:
            services.erase_worker(worker=Worker.objects.filter(project=odd).first(), user=None)
        assert client.get(f"{PAGE}{job.pk}/").status_code == 404, change
        assert "odd-judgements-seq" not in client.get(PAGE).text
        assert jobs.run_export_job("one") is False
        assert not ExportJob.objects.exists()
        assert not ExportPiece.objects.exists()
        assert not list(storage._folder().glob("*"))


def test_a_file_of_another_project_is_not_found(odd: Project, stranger: User, log_in: Callable[[User], Client]) -> None:
    job = queue_job(odd)
    jobs.run_export_job("one")
    assert log_in(stranger).get(f"/projects/elsewhere/exports/{job.pk}/").status_code == 404


def test_a_failed_export_shows_the_reason(odd: Project, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    queue_job(odd, what="ranking")
    jobs.run_export_job("one")
    assert "has no ranking yet" in client.get(PAGE).text

    def full(job: ExportJob) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(jobs, "open_writer", full)
    queue_job(odd)
    jobs.run_export_job("one")
    assert "The disk is full." in client.get(PAGE).text


def test_the_updater_runs_export_jobs_when_no_project_is_behind(odd: Project) -> None:
    queue_job(odd)
    while run_once("one").worked:
        pass
    assert ExportJob.objects.get().state == "done"
    assert UpdateState.objects.get(project=odd).current.number == 1


def test_an_export_changes_the_mark_of_an_open_page(odd: Project) -> None:
    from modelling.dashboards.common.freshness import get_freshness

    before = get_freshness(odd).status_hash
    queue_job(odd)
    waiting = get_freshness(odd).status_hash
    ExportJob.objects.update(progress={"share": 0.5})
    assert len({before, waiting, get_freshness(odd).status_hash}) == 3


def test_an_archive_waits_for_a_fit_from_scratch(odd: Project, client: Client) -> None:
    fit(odd)
    assert client.post(PAGE, {"what": "archive", "licence": "CC BY 4.0"}).status_code == 302
    assert ExportJob.objects.get().version == 1, "a refit is there"
    jobs.run_export_job("one")
    ExportJob.objects.all().delete()
    answer(odd, [(0, 0, 1, "first")])
    assert fit(odd).kind == "step"
    assert not service.is_archivable(ModelSnapshot.objects.get(number=2))
    ModelSnapshot.objects.filter(number=1).update(code_version="0.0.1")
    assert not service.is_archivable(ModelSnapshot.objects.get(number=1)), "other code would not fit it again"
    client.post(PAGE, {"what": "archive"})
    queue_job(odd)
    assert jobs.run_export_job("one") is True, "the archive waits; what came after it does not"
    assert jobs.run_export_job("one") is False
    assert fit(odd).kind == "refit"
    assert jobs.run_export_job("one") is True
    assert {job.name for job in ExportJob.objects.all()} >= {"odd-archive-seq43-v3.zip"}
