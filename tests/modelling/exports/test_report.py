"""The report as an export: streamed as HTML, printed to PDF by a job, in the language of the request."""

import io
import shutil
from pathlib import Path

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.test import Client
from django.utils import translation
from pytest_django.fixtures import Settings

from annotation.models import AuditEntry, Project, User
from modelling.dashboards.report.document import render_report
from modelling.exports import jobs, pdf, service, storage
from modelling.exports.points import ExportError
from modelling.exports.service import ExportRequest, QueuedExport
from modelling.models import ExportJob, ModelSnapshot
from tests.modelling.exports.samples import export_bytes, fit, odd_study

pytestmark = pytest.mark.django_db
needs_browser = pytest.mark.skipif(not any(map(shutil.which, pdf.BROWSERS)), reason="no Chromium or Chrome")


@pytest.fixture
def snapshot(db: None) -> ModelSnapshot:
    return fit(odd_study())


def test_the_file_is_the_document_of_the_version(snapshot: ModelSnapshot, owner: User) -> None:
    file = ExportRequest(snapshot.project, owner, "report").deliver()
    assert (file.name, file.content_type) == ("odd-report-seq42-v1.html", "text/html; charset=utf-8")
    assert b"".join(file.open()).decode() == render_report(snapshot)
    assert AuditEntry.objects.filter(action="exported report").exists()


def test_a_study_without_a_version_has_no_report(owner: User) -> None:
    with pytest.raises(ExportError, match="has no ranking yet"):
        ExportRequest(odd_study(), owner, "report").deliver()


def test_a_report_of_many_judgements_is_queued_in_the_language_of_the_request(
    snapshot: ModelSnapshot, owner: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "MAX_STREAMED_ROWS", 10)
    with translation.override("de"):
        queued = ExportRequest(snapshot.project, owner, "report").deliver()
    english = ExportRequest(snapshot.project, owner, "report").deliver()
    assert isinstance(queued, QueuedExport)
    assert (queued.job.language, english.created) == ("de", True)
    assert jobs.run_export_job("test")
    content = b"".join(storage.read_file(ExportJob.objects.get(pk=queued.job.pk))).decode()
    assert content == render_report(snapshot, "de")


@pytest.mark.slow
@needs_browser
def test_a_pdf_is_printed_by_a_job(admin_client: Client, snapshot: ModelSnapshot) -> None:
    page = admin_client.post("/projects/odd/exports/", {"what": "report", "format": "pdf"}, follow=True)
    assert "The file is being prepared." in page.text
    assert jobs.run_export_job("test")
    job = ExportJob.objects.get()
    assert (job.state, job.name) == ("done", "odd-report-seq42-v1.pdf")
    assert b"".join(storage.read_file(job)).startswith(b"%PDF-")


def test_a_browser_that_fails_fails_the_job_with_a_message(
    snapshot: ModelSnapshot, settings: Settings, tmp_path: Path
) -> None:
    broken = tmp_path / "browser"
    broken.write_text("#!/bin/sh\nexit 1\n", encoding="ascii")
    broken.chmod(0o700)
    settings.PDF_BROWSER = str(broken)
    ExportRequest(snapshot.project, None, "report", "pdf").queue()
    assert jobs.run_export_job("test")
    assert "could not print the report" in ExportJob.objects.get(state="failed").message


def test_a_browser_that_hangs_is_ended(
    snapshot: ModelSnapshot, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = tmp_path / "browser"
    slow.write_text("#!/bin/sh\nsleep 60\n", encoding="ascii")
    slow.chmod(0o700)
    settings.PDF_BROWSER = str(slow)
    monkeypatch.setattr(pdf, "PRINT_SECONDS", 0.2)
    with pytest.raises(ExportError, match="could not print the report"):
        export_bytes(snapshot.project, "report", "pdf")


def test_without_a_browser_only_html_is_offered(
    admin_client: Client, snapshot: ModelSnapshot, settings: Settings
) -> None:
    settings.PDF_BROWSER = "no-such-browser"
    page = admin_client.get("/projects/odd/exports/").text
    assert "Download the report" in page
    assert "Create a PDF" not in page
    refused = admin_client.post("/projects/odd/exports/", {"what": "report", "format": "pdf"})
    assert refused.status_code == 422
    assert "A PDF needs Chromium or Chrome" in refused.text
    assert not ExportJob.objects.exists()


def test_the_ranking_and_reliability_pages_offer_the_report(admin_client: Client, snapshot: ModelSnapshot) -> None:
    for page in ("ranking", "reliability"):
        assert "Download the report" in admin_client.get(f"/projects/odd/{page}/").text
    report = admin_client.post("/projects/odd/exports/", {"what": "report"})
    assert b"".join(report.streaming_content).decode() == render_report(snapshot)
    assert report["Content-Disposition"] == 'attachment; filename="odd-report-seq42-v1.html"'


def test_viewers_are_not_offered_the_report(client: Client, project: Project, viewer: User) -> None:
    client.force_login(viewer)
    assert "Download the report" not in client.get("/projects/pets/ranking/").text
    assert client.post("/projects/pets/exports/", {"what": "report"}).status_code == 403


def test_the_command_writes_the_report_in_a_language(snapshot: ModelSnapshot, tmp_path: Path) -> None:
    target = tmp_path / "report.html"
    call_command("export", "odd", "report", "--language", "de", "--output", str(target), stdout=io.StringIO())
    assert target.read_text(encoding="utf-8") == render_report(snapshot, "de")
    with pytest.raises(CommandError, match="html, pdf"):
        call_command("export", "odd", "report", "--format", "csv", "--output", str(target))
