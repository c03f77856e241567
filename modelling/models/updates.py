"""Who is at work for which project, how far the model has come, and which settings are being tried."""

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _


class UpdateState(models.Model):
    """One row per project: up to which event the model has learned, who is at work now, and which snapshot is current.

    What is wanted is not stored: it is the project's last sequence and inputs_revision.
    """

    class Condition(models.TextChoices):
        WAITING = "waiting", _("waiting for judgements")
        OK = "ok", _("up to date or catching up")
        DEGRADED = "degraded", _("the last good version is shown")

    project = models.OneToOneField("annotation.Project", on_delete=models.CASCADE, related_name="update_state")
    done_sequence = models.PositiveBigIntegerField(default=0)
    done_inputs_revision = models.PositiveBigIntegerField(default=0)
    current = models.ForeignKey("ModelSnapshot", null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    pinned = models.ForeignKey(
        "ModelSnapshot",
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        related_name="+",
        help_text=_("The version that pages show while the model goes on learning; empty: the current one."),
    )
    owner = models.CharField(max_length=40, blank=True)
    lease_until = models.DateTimeField(null=True, blank=True)
    attempts = models.PositiveIntegerField(default=0)
    not_before = models.DateTimeField(null=True, blank=True)
    tried_inputs_revision = models.PositiveBigIntegerField(
        default=0, help_text=_("Of the newest attempt: whoever changes the inputs need not wait for not_before.")
    )
    condition = models.CharField(max_length=10, choices=Condition.choices, default=Condition.WAITING)
    words = models.TextField(blank=True, help_text=_("Why it waits or is degraded, in plain words; empty when ok."))
    progress = models.JSONField(
        default=dict, blank=True, help_text=_("Of the fit that runs now: what, share, iteration, change; else empty.")
    )

    def __str__(self) -> str:
        return f"{self.project_id}: learned up to {self.done_sequence}"


class Job(models.Model):
    """Something that somebody asked for and the updater does when no project is behind (`jobs.py`)."""

    class State(models.TextChoices):
        WAITING = "waiting", _("waiting for the updater")
        RUNNING = "running", _("running")
        DONE = "done", _("done")
        FAILED = "failed", _("could not be done")

    project: models.ForeignKey
    project_id: int
    asked_by = models.ForeignKey("annotation.User", null=True, on_delete=models.SET_NULL, related_name="+")
    asked_at = models.DateTimeField(auto_now_add=True)
    state = models.CharField(max_length=10, choices=State.choices, default=State.WAITING)
    owner = models.CharField(max_length=40, blank=True)
    lease_until = models.DateTimeField(null=True, blank=True)
    progress = models.JSONField(default=dict, blank=True)
    words = models.TextField(blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        abstract = True
        ordering = ["-asked_at"]

    def __str__(self) -> str:
        return f"{self.project_id}: {self.state}"


class SettingsSearch(Job):
    """A request to choose the model's settings by leaving groups of items out, and what came of it."""

    project = models.ForeignKey("annotation.Project", on_delete=models.CASCADE, related_name="settings_searches")
    table = models.JSONField(default=list, blank=True, help_text=_("Every candidate with its losses, best first."))
    winner = models.JSONField(default=dict, blank=True)

    class Meta(Job.Meta):
        verbose_name_plural = "settings searches"
        constraints = [
            models.UniqueConstraint(
                fields=["project"], condition=Q(state__in=["waiting", "running"]), name="one_search_at_a_time"
            )
        ]


class ExportJob(Job):
    """A file too large to make while somebody waits: what it is of, and where it is until it is thrown away."""

    project = models.ForeignKey("annotation.Project", on_delete=models.CASCADE, related_name="export_jobs")
    what = models.CharField(max_length=30)
    format = models.CharField(max_length=10, blank=True)
    sequence = models.PositiveBigIntegerField(help_text=_("The last event it speaks of."))
    version = models.PositiveIntegerField(default=0, help_text=_("0 where there is none."))
    inputs_revision = models.PositiveBigIntegerField(
        default=0, help_text=_("Of an archive: the fit from scratch that it waits for has at least this one.")
    )
    licence = models.CharField(max_length=200, blank=True)
    name = models.CharField(max_length=200, blank=True)
    bytes = models.PositiveBigIntegerField(default=0)
    sha256 = models.CharField(max_length=64, blank=True)

    class Meta(Job.Meta):
        constraints = [
            models.UniqueConstraint(
                fields=["project", "what", "format", "sequence", "version"],
                condition=Q(state__in=["waiting", "running"]),
                name="one_export_of_a_point",
            )
        ]


class ExportPiece(models.Model):
    """A part of an export's file, where several machines must read it; small, so that memory stays small."""

    job = models.ForeignKey(ExportJob, on_delete=models.CASCADE, related_name="pieces")
    number = models.PositiveIntegerField()
    content = models.BinaryField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["job", "number"], name="export_piece_once")]

    def __str__(self) -> str:
        return f"{self.job_id}: {self.number}"


class UpdaterBeat(models.Model):
    """When an updater was last seen. One row a machine; `/readyz` asks for a recent one."""

    name = models.CharField(max_length=80, primary_key=True)
    seen_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.name
