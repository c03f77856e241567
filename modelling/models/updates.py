"""Update states, and the jobs that the updater runs."""

from datetime import timedelta

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from modelling.models.leases import LeasedRow


class UpdateState(LeasedRow):
    """One row per project: the events already learned from, the running update, and the current version.

    How far it is behind is not stored: it follows from the project's last sequence and inputs_revision.
    """

    class Condition(models.TextChoices):
        WAITING = "waiting", _("waiting for judgements")
        OK = "ok", _("up to date or being updated")
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
        help_text=_("The version that pages show while updates continue; if empty, the current one."),
    )
    attempts = models.PositiveIntegerField(default=0)
    not_before = models.DateTimeField(null=True, blank=True)
    tried_inputs_revision = models.PositiveBigIntegerField(
        default=0, help_text=_("The inputs of the last attempt; newer inputs are tried without waiting for not_before.")
    )
    condition = models.CharField(max_length=10, choices=Condition.choices, default=Condition.WAITING)
    message = models.TextField(
        blank=True, db_column="words", help_text=_("Why it is waiting or degraded; empty if ok.")
    )
    progress = models.JSONField(
        default=dict, blank=True, help_text=_("Of the running fit: what, share, iteration, change; otherwise empty.")
    )

    class Meta:
        verbose_name, verbose_name_plural = "state of updates", "states of updates"

    def __str__(self) -> str:
        return f"{self.project_id}: learned up to {self.done_sequence}"


class Job(LeasedRow):
    """A requested job that the updater runs when no project needs an update (`updater/jobs.py`)."""

    lease_duration = timedelta(minutes=10)

    class State(models.TextChoices):
        WAITING = "waiting", _("waiting for the updater")
        RUNNING = "running", _("running")
        DONE = "done", _("done")
        FAILED = "failed", _("failed")
        CANCELLED = "cancelled", _("cancelled")

    project: models.ForeignKey
    project_id: int
    requested_by = models.ForeignKey(
        "annotation.User", null=True, on_delete=models.SET_NULL, related_name="+", db_column="asked_by_id"
    )
    requested_at = models.DateTimeField(auto_now_add=True, db_column="asked_at")
    state = models.CharField(max_length=10, choices=State.choices, default=State.WAITING)
    progress = models.JSONField(default=dict, blank=True)
    message = models.TextField(blank=True, db_column="words")
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        abstract = True
        ordering = ["-requested_at"]

    def __str__(self) -> str:
        return f"{self.project_id}: {self.state}"


class SettingsSearch(Job):
    """A search for better model settings by cross-validation over groups of items, with its results."""

    project = models.ForeignKey("annotation.Project", on_delete=models.CASCADE, related_name="settings_searches")
    table = models.JSONField(default=list, blank=True, help_text=_("Every candidate with its losses, best first."))
    winner = models.JSONField(default=dict, blank=True)

    class Meta(Job.Meta):
        verbose_name, verbose_name_plural = "search for settings", "searches for settings"
        constraints = [
            models.UniqueConstraint(
                fields=["project"], condition=Q(state__in=["waiting", "running"]), name="one_search_at_a_time"
            )
        ]


class StudySimulation(Job):
    """Simulated crowds that judge a planned study: the plan with its pay, and the curves of each crowd."""

    project = models.ForeignKey("annotation.Project", on_delete=models.CASCADE, related_name="simulations")
    plan = models.JSONField()
    pay = models.JSONField(default=dict, blank=True, help_text=_("Cost per judgement and currency; empty if unpaid."))
    crowds = models.JSONField(default=list, blank=True, help_text=_("The curves of each simulated crowd."))
    seconds = models.FloatField(default=0.0, help_text=_("CPU seconds so far."))

    class Meta(Job.Meta):
        verbose_name, verbose_name_plural = "simulation of a study", "simulations of studies"
        constraints = [
            models.UniqueConstraint(
                fields=["project"], condition=Q(state__in=["waiting", "running"]), name="one_simulation_at_a_time"
            )
        ]


class ExportJob(Job):
    """An export that is too large to stream: what it contains, and its file until that expires."""

    project = models.ForeignKey("annotation.Project", on_delete=models.CASCADE, related_name="export_jobs")
    what = models.CharField(max_length=30)
    format = models.CharField(max_length=10, blank=True)
    sequence = models.PositiveBigIntegerField(help_text=_("The last event it covers."))
    version = models.PositiveIntegerField(default=0, help_text=_("0 if there is none."))
    inputs_revision = models.PositiveBigIntegerField(
        default=0, help_text=_("For an archive: the inputs revision that the awaited refit has at least.")
    )
    licence = models.CharField(max_length=200, blank=True)
    language = models.CharField(max_length=12, blank=True, help_text=_("Of a report."))
    name = models.CharField(max_length=200, blank=True)
    bytes = models.PositiveBigIntegerField(default=0)
    sha256 = models.CharField(max_length=64, blank=True)

    class Meta(Job.Meta):
        verbose_name, verbose_name_plural = "requested file", "requested files"
        constraints = [
            models.UniqueConstraint(
                fields=["project", "what", "format", "sequence", "version", "language"],
                condition=Q(state__in=["waiting", "running"]),
                name="one_export_of_a_point",
            )
        ]


class ExportPiece(models.Model):
    """One part of an export's file in the database, where all machines can read it; small, to limit memory."""

    job = models.ForeignKey(ExportJob, on_delete=models.CASCADE, related_name="pieces")
    number = models.PositiveIntegerField()
    content = models.BinaryField()

    class Meta:
        verbose_name, verbose_name_plural = "piece of a requested file", "pieces of requested files"
        constraints = [models.UniqueConstraint(fields=["job", "number"], name="export_piece_once")]

    def __str__(self) -> str:
        return f"{self.job_id}: {self.number}"


class UpdaterBeat(models.Model):
    """When an updater last ran on a machine; `/readyz` checks that one ran recently."""

    name = models.CharField(max_length=80, primary_key=True)
    seen_at = models.DateTimeField()

    class Meta:
        verbose_name, verbose_name_plural = "updater process", "updater processes"

    def __str__(self) -> str:
        return self.name
