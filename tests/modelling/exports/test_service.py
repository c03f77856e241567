"""The export service: what is streamed, what is queued, which limits and audit entries apply to whom."""

import pytest
from django.test import Client

from annotation.http import throttling
from annotation.models import AuditEntry, Project, User
from modelling.exports import service
from modelling.exports.service import ExportLimitExceeded, ExportRequest, QueuedExport
from modelling.models import ExportJob
from tests.modelling.exports.samples import export_bytes, fit, odd_study

pytestmark = pytest.mark.django_db


@pytest.fixture
def odd(db: None) -> Project:
    return odd_study()


def test_a_small_file_is_streamed_counted_and_audited(
    odd: Project, owner: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(throttling, "MAX_EXPORTS", 1)
    file = ExportRequest(odd, owner, "judgements", "csv").deliver()
    assert b"".join(file.open()) == export_bytes(odd, "judgements", "csv")
    entry = AuditEntry.objects.get(project=odd, user=owner, action="exported judgements")
    assert entry.details == {"version": None, "as_of_seq": 42, "format": "csv"}
    with pytest.raises(ExportLimitExceeded):
        ExportRequest(odd, owner, "judgements", "csv").deliver()
    assert ExportRequest(odd, owner, "judgements", "csv").deliver(count=False).name == file.name


def test_a_large_file_is_queued_once(odd: Project, owner: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "MAX_STREAMED_ROWS", 10)
    first, second = (ExportRequest(odd, owner, "judgements").deliver() for _ in range(2))
    assert isinstance(first, QueuedExport)
    assert (first.job, first.created, second.created) == (second.job, True, False)
    assert (first.job.format, first.job.sequence, first.job.version) == ("csv", 42, 0)
    assert AuditEntry.objects.filter(action="asked for an export: judgements").count() == 1


def test_a_queued_ranking_keeps_the_version_of_its_request(
    odd: Project, owner: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "MAX_STREAMED_ROWS", 1)
    fit(odd)
    queued = ExportRequest(odd, owner, "ranking", "csv").deliver()
    assert isinstance(queued, QueuedExport)
    assert queued.job.version == odd.snapshots.get().number


def test_the_command_line_has_no_limit_and_no_audit_entry(odd: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "MAX_STREAMED_ROWS", 10)
    file = ExportRequest(odd, None, "judgements", "csv").build_here(fit=lambda: pytest.fail("no fit is needed"))
    assert b"".join(file.open()) == export_bytes(odd, "judgements", "csv")
    assert not AuditEntry.objects.filter(action__startswith="exported").exists()
    assert not ExportJob.objects.exists()
    monkeypatch.setattr(service, "JOBS_PER_HOUR", 0)
    assert ExportRequest(odd, None, "judgements", "csv").queue().created


def test_the_admin_shows_the_limit_as_a_message(
    odd: Project, admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "MAX_STREAMED_ROWS", 10)
    monkeypatch.setattr(service, "JOBS_PER_HOUR", 0)
    action = {"action": "export_projects", "what": "judgements", "format": "csv", "_selected_action": [odd.pk]}
    page = admin_client.post("/admin/annotation/project/", action, follow=True)
    assert (page.status_code, ExportJob.objects.count()) == (200, 0)
    assert "The limit is 0 files per person and hour." in page.text
