"""Large files: asked for as a row, made by the updater, taken up again after a kill, kept for a while."""

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
from modelling import claiming
from modelling.exporting import events, keeping, requests, tables
from modelling.exporting.points import point_of
from modelling.jobs import LostJob
from modelling.models import ExportJob, ExportPiece, ModelSnapshot, UpdateState
from modelling.turns import take_turn
from tests.modelling.exported import bytes_of, learned, odd_study
from tests.modelling.histories import answer

pytestmark = pytest.mark.django_db

PAGE = "/projects/odd/exports/"
CSV = {"what": "judgements", "format": "csv"}


@pytest.fixture
def odd(owner: User, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A study in which eleven rows are many."""
    monkeypatch.setattr(requests, "AT_ONCE", 10)
    for module in (events, tables):
        monkeypatch.setattr(module, "PAGE", 7)
    project = odd_study()
    services.set_membership(project=project, user=owner, member=owner, role="owner")
    return project


@pytest.fixture(params=["files", "table"])
def kept_in(request: pytest.FixtureRequest, settings) -> str:
    settings.SNAPSHOT_ARRAYS = request.param
    return request.param


@pytest.fixture
def client(odd: Project, owner: User, log_in: Callable[[User], Client]) -> Client:
    return log_in(owner)


def asked(project: Project, **facts: object) -> ExportJob:
    requests.ask(project=project, user=None, point=point_of(project), **{**CSV, **facts})
    return ExportJob.objects.latest("pk")


def test_a_large_file_is_made_by_the_updater_and_downloaded_later(odd: Project, kept_in: str, client: Client) -> None:
    wanted = bytes_of(odd, "judgements", "csv")
    for _ in range(2):
        assert client.post(PAGE, CSV).status_code == 302
    job = ExportJob.objects.get()
    assert "waiting for the updater" in client.get(PAGE).text.lower()
    assert client.get(f"{PAGE}{job.pk}/").status_code == 404, "not yet"
    assert requests.export_one("one") is True
    job.refresh_from_db()
    assert (job.state, job.owner, job.bytes) == ("done", "", len(wanted))
    assert job.sha256 == hashlib.sha256(wanted).hexdigest()
    given = client.get(f"{PAGE}{job.pk}/")
    assert given.getvalue() == wanted
    assert given["Content-Disposition"] == 'attachment; filename="odd-judgements-seq42.csv"'
    assert job.name in client.get(PAGE).text
    assert AuditEntry.objects.filter(action="exported judgements").count() == 1
    assert requests.export_one("one") is False


def test_the_page_says_how_many_files_one_may_have(odd: Project, client: Client, monkeypatch) -> None:
    monkeypatch.setattr(requests, "LARGE_PER_HOUR", 1)
    assert client.post(PAGE, CSV).status_code == 302
    refused = client.post(PAGE, {**CSV, "format": "json"})
    assert (refused.status_code, ExportJob.objects.count()) == (429, 1)
    assert "One person may have 1 such files in an hour. The next in 60 minutes. Nothing was exported." in refused.text
    assert int(refused["Retry-After"]) > 3500
    archive = client.post(PAGE, {"what": "archive"})
    assert archive.status_code in (422, 429)


def test_a_file_goes_to_the_disk_bit_by_bit(odd: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the disk is never busy for long with what nobody waits for."""
    synced: list[int] = []
    monkeypatch.setattr(keeping.os, "fsync", lambda file: synced.append(os.fstat(file).st_size))
    monkeypatch.setattr(keeping, "SYNCED", 100)
    job = asked(odd)
    assert requests.export_one("one") is True
    job.refresh_from_db()
    assert len(synced) > 2
    assert (sorted(set(synced)), synced[-1]) == (synced[:-1], job.bytes)


def test_the_file_is_of_the_point_at_which_it_was_asked_for(odd: Project) -> None:
    wanted, job = bytes_of(odd, "judgements", "csv"), asked(odd)
    answer(odd, [(0, 0, 1, "first")])
    requests.export_one("one")
    job.refresh_from_db()
    assert b"".join(keeping.stored(job)) == wanted


def test_a_killed_export_begins_anew(odd: Project, kept_in: str, monkeypatch: pytest.MonkeyPatch) -> None:
    job, wanted = asked(odd), bytes_of(odd, "judgements", "csv")
    ExportJob.objects.update(state="running", owner="killed", lease_until=timezone.now() + timedelta(minutes=5))
    job.refresh_from_db()
    half = keeping.draft_of(job)
    monkeypatch.setattr(keeping, "PIECE", 10)
    half.add(b"half of a file, and then the lights went out")
    assert requests.export_one("two") is False, "the lease still runs"
    ExportJob.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
    assert requests.export_one("two") is True
    job.refresh_from_db()
    assert b"".join(keeping.stored(job)) == wanted
    with pytest.raises(LostJob):
        half.finish("late.csv")
    half.close()
    job.refresh_from_db()
    assert (job.state, b"".join(keeping.stored(job))) == ("done", wanted)


def test_an_export_of_a_dead_process_here_is_free_at_once(odd: Project) -> None:
    dead = subprocess.Popen(["true"])
    dead.wait()
    host = claiming.owner_here().rsplit("-", 1)[0]
    asked(odd)
    for pid, free in ((os.getppid(), False), (dead.pid, True)):
        held = {"owner": f"{host}-{pid}", "lease_until": timezone.now() + timedelta(minutes=10)}
        ExportJob.objects.update(state="running", **held)
        claiming.release_claims_of_the_dead()
        assert requests.export_one("next") == free


def test_progress_is_shown_and_updates_go_on_meanwhile(
    odd: Project, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "EVERY_SECOND", 0.0)
    asked(odd)
    seen: list[str] = []

    def look() -> None:
        seen.append(client.get(f"{PAGE}?fragment=1").text)
        if len(seen) == 1:
            learned(odd)

    requests.export_one("one", look)
    assert any('max="100"' in text for text in seen), "a bar with a share"
    assert UpdateState.objects.get(project=odd).current.number == 1


def test_one_who_lost_the_export_writes_nothing(odd: Project, kept_in: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "EVERY_SECOND", 0.0)
    asked(odd)
    requests.export_one("one", lambda: ExportJob.objects.update(owner="two"))
    job = ExportJob.objects.get()
    assert (job.state, job.owner, job.name) == ("running", "two", "")
    assert not list((keeping._folder()).glob("*"))
    assert not ExportPiece.objects.exists()


def test_files_are_thrown_away_after_some_days_or_when_somebody_is_erased(
    odd: Project, kept_in: str, client: Client
) -> None:
    for change in ("time", "erasure"):
        job = asked(odd)
        requests.export_one("one")
        assert client.get(f"{PAGE}{job.pk}/").status_code == 200
        if change == "time":
            ExportJob.objects.update(ended_at=timezone.now() - keeping.KEPT - timedelta(seconds=1))
        else:
            services.erase_worker(worker=Worker.objects.filter(project=odd).first(), user=None)
        assert client.get(f"{PAGE}{job.pk}/").status_code == 404, change
        assert "odd-judgements-seq" not in client.get(PAGE).text
        assert requests.export_one("one") is False
        assert not ExportJob.objects.exists()
        assert not ExportPiece.objects.exists()
        assert not list(keeping._folder().glob("*"))


def test_another_projects_file_is_not_found(odd: Project, stranger: User, log_in: Callable[[User], Client]) -> None:
    job = asked(odd)
    requests.export_one("one")
    assert log_in(stranger).get(f"/projects/elsewhere/exports/{job.pk}/").status_code == 404


def test_what_cannot_be_made_is_said_in_words(odd: Project, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    asked(odd, what="ranking")
    requests.export_one("one")
    assert "has no ranking yet" in client.get(PAGE).text

    def full(job: ExportJob) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(requests, "draft_of", full)
    asked(odd)
    requests.export_one("one")
    assert "The disk is full." in client.get(PAGE).text


def test_the_updater_makes_files_when_no_project_is_behind(odd: Project) -> None:
    asked(odd)
    while take_turn("one").worked:
        pass
    assert ExportJob.objects.get().state == "done"
    assert UpdateState.objects.get(project=odd).current.number == 1


def test_an_open_page_hears_of_an_export(odd: Project) -> None:
    from modelling.dashboards.freshness import freshness_of

    before = freshness_of(odd).mark
    asked(odd)
    waiting = freshness_of(odd).mark
    ExportJob.objects.update(progress={"share": 0.5})
    assert len({before, waiting, freshness_of(odd).mark}) == 3


def test_an_archive_waits_for_a_fit_from_scratch_where_the_shown_version_is_none(odd: Project, client: Client) -> None:
    learned(odd)
    assert client.post(PAGE, {"what": "archive", "licence": "CC BY 4.0"}).status_code == 302
    assert ExportJob.objects.get().version == 1, "a refit is there"
    requests.export_one("one")
    ExportJob.objects.all().delete()
    answer(odd, [(0, 0, 1, "first")])
    assert learned(odd).kind == "step"
    assert not requests.can_be_archived(ModelSnapshot.objects.get(number=2))
    ModelSnapshot.objects.filter(number=1).update(code_version="0.0.1")
    assert not requests.can_be_archived(ModelSnapshot.objects.get(number=1)), "other code would not fit it again"
    client.post(PAGE, {"what": "archive"})
    asked(odd)
    assert requests.export_one("one") is True, "the archive waits; what came after it does not"
    assert requests.export_one("one") is False
    assert learned(odd).kind == "refit"
    assert requests.export_one("one") is True
    assert {job.name for job in ExportJob.objects.all()} >= {"odd-archive-seq43-v3.zip"}
