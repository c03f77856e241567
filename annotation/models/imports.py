"""Imports of many judgements, which are appended to the event log in the background."""

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _


class JudgementImport(models.Model):
    """An import in chunks (`importing/background.py`). What is still to be appended is what its chunks hold."""

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
    """Checked rows of an import that are not yet in the event log."""

    job = models.ForeignKey(JudgementImport, on_delete=models.CASCADE, related_name="chunks")
    number = models.PositiveIntegerField()
    content = models.JSONField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["job", "number"], name="import_chunk_once")]

    def __str__(self) -> str:
        return f"{self.job_id}: {self.number}"
