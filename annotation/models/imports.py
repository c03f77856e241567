"""Uploads awaiting confirmation, and imports that are appended to the event log in the background."""

from typing import Any

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _


class UploadPiece(models.Model):
    """Part of an uploaded file, stored between preview and confirmation if several machines serve the pages."""

    name = models.CharField(max_length=32)
    number = models.PositiveIntegerField()
    content = models.BinaryField()
    stored_at = models.DateTimeField(auto_now_add=True, db_index=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["name", "number"], name="upload_piece_once")]

    def __str__(self) -> str:
        return f"{self.name}: {self.number}"


class JudgementImport(models.Model):
    """An import in chunks (`importing/background.py`). Its remaining chunks hold what is still to be appended."""

    class State(models.TextChoices):
        STAGING = "staging", _("being prepared")
        RUNNING = "running", _("running")
        DONE = "done", _("done")
        FAILED = "failed", _("failed")

    project = models.ForeignKey("annotation.Project", on_delete=models.CASCADE, related_name="imports")
    requested_by = models.ForeignKey("annotation.User", null=True, on_delete=models.SET_NULL, related_name="+")
    state = models.CharField(max_length=10, choices=State.choices, default=State.STAGING)
    total = models.PositiveIntegerField(help_text=_("The number of judgements to append."))
    added = models.PositiveIntegerField(default=0, help_text=_("The number of judgements appended so far."))
    created_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["project"], condition=Q(state="running"), name="one_import_at_a_time"),
            models.CheckConstraint(
                condition=Q(state__in=["staging", "running", "done", "failed"]), name="judgement_import_state"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.project_id}: {self.added} of {self.total}"


class ImportChunk(models.Model):
    """Checked rows of an import that are not yet in the event log: `workers` (names), `judgements` or `traits`."""

    job = models.ForeignKey(JudgementImport, on_delete=models.CASCADE, related_name="chunks")
    number = models.PositiveIntegerField()
    content = models.JSONField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["job", "number"], name="import_chunk_once")]

    def __str__(self) -> str:
        return f"{self.job_id}: {self.number}"

    def erase_worker(self, name: str, code: str, *, remove_judgements: bool) -> int:
        """Replace a worker's name by their code and drop everything else; return the number of removed judgements.

        The result is the same as erasing the worker after the import.
        """
        records = self.content.get("judgements", [])
        kept = [record for record in records if record.get("worker") != name]
        if not remove_judgements:
            kept = [_anonymise(record, code) if record.get("worker") == name else record for record in records]
        if "judgements" in self.content:
            self.content["judgements"] = kept
        self.content.get("traits", {}).pop(name, None)
        return len(records) - len(kept)


def _anonymise(record: dict[str, Any], code: str) -> dict[str, Any]:
    personal = ("worker", "judged_at", "note", "extra")
    return {field: value for field, value in record.items() if field not in personal} | {"code": code}
