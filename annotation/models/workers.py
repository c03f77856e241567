"""Workers. A worker is a random code; platform IDs are in a separate table, so that a person can be erased."""

import secrets
from datetime import datetime, timedelta
from typing import Any

from django.apps import apps
from django.conf import settings
from django.db import models
from django.db.models import Count, Exists, OuterRef, Q
from django.utils.translation import gettext_lazy as _

from annotation.models.arms import Design

# No characters that look alike.
CODE_ALPHABET = "23456789abcdefghjkmnpqrstuvwxyz"
CODE_LENGTH = 10
RETURN_CODE_LENGTH = 15  # 74 bits
SIMULATED = "simulated-"  # prefix of a simulated worker's code; a person's code contains no hyphen


def worker_code() -> str:
    return "".join(secrets.choice(CODE_ALPHABET) for _ in range(CODE_LENGTH))


def spell_code(digest: bytes, length: int = CODE_LENGTH) -> str:
    """Spell a code of this length from the first bytes of a digest."""
    return "".join(CODE_ALPHABET[byte % len(CODE_ALPHABET)] for byte in digest[:length])


# A worker without an answer for this long counts as dropped out until they return.
ACTIVE_WINDOW = timedelta(minutes=15)


class WorkerQuerySet(models.QuerySet["Worker"]):
    def visible(self) -> "WorkerQuerySet":
        """Exclude erased workers whose judgements were all removed, even if a version still includes them."""
        judgements = apps.get_model("annotation", "Judgement").objects.not_retracted().filter(worker=OuterRef("pk"))
        return self.filter(~Q(outcome=Worker.ERASED) | Exists(judgements))

    def participants(self) -> "WorkerQuerySet":
        """People who joined through the study's link or the API; excludes simulated, imported and erased workers."""
        answers = apps.get_model("annotation", "Judgement").objects.order_by().filter(worker=OuterRef("pk"))
        simulated = Exists(answers.filter(source="simulated"))  # the demo's workers have ordinary codes
        return self.exclude(consented_at=None).exclude(code__startswith=SIMULATED).filter(~simulated)

    def arm_names(self, key: str = "pk") -> dict[Any, str]:
        """The arm of each worker who has one, by their primary key or code."""
        return dict(self.filter(arm__isnull=False).values_list(key, "arm__name"))

    def activity_counts(self, now: datetime) -> dict[str, int]:
        """The number of active, finished, dropped-out and withdrawn workers."""
        judgements, since = apps.get_model("annotation", "Judgement").objects.order_by(), now - ACTIVE_WINDOW
        recent = judgements.filter(project__in=self.values("project"), created_at__gte=since).values("worker")
        without_answers = ~Exists(judgements.filter(worker=OuterRef("pk")))
        active = Q(state="active")
        seen_recently = Q(pk__in=recent) | Q(without_answers, joined_at__gte=since)
        counts = self.aggregate(
            in_all=Count("pk", filter=active),
            active=Count("pk", filter=active & seen_recently),
            finished=Count("pk", filter=Q(state="finished")),
            withdrawn=Count("pk", filter=Q(state="withdrawn")),
        )
        dropped_out = counts.pop("in_all") - counts["active"]
        return {**counts, "dropped_out": dropped_out}


class Worker(models.Model):
    class State(models.TextChoices):
        ACTIVE = "active", _("active")
        FINISHED = "finished", _("finished")
        WITHDRAWN = "withdrawn", _("withdrawn")

    class Outcome(models.TextChoices):
        """How a participation ended. Set once; a worker who declines is not stored at all."""

        FINISHED = "finished", _("finished")
        STOPPED = "stopped", _("stopped early")
        DECLINED = "declined", _("declined consent")
        SCREENED_OUT = "screened_out", _("screened out")
        FAILED_CHECKS = "failed_checks", _("failed checks")
        NO_WORK_LEFT = "no_work_left", _("no work left")
        ERROR = "error", _("error")
        RETURNED = "returned", _("returned the task")

    ERASED = "erased"  # outcome of an erased worker

    project = models.ForeignKey("annotation.Project", on_delete=models.CASCADE, related_name="workers")
    code = models.CharField(max_length=40, default=worker_code)
    traits = models.JSONField(
        default=dict, blank=True, help_text=_("Answers to the questionnaire that the model may use.")
    )
    answers = models.JSONField(
        default=dict, blank=True, help_text=_("Other answers: free text, and questions after the task.")
    )
    closing_at = models.DateTimeField(
        null=True, blank=True, help_text=_("When the worker answered or skipped the questions after the task.")
    )
    state = models.CharField(max_length=10, choices=State.choices, default=State.ACTIVE)
    outcome = models.CharField(max_length=40, blank=True)
    return_digest = models.CharField(
        max_length=64, blank=True, editable=False, help_text=_("SHA-256 of the code with which the worker returns.")
    )
    consented_at = models.DateTimeField(null=True, blank=True)
    joined_at = models.DateTimeField(auto_now_add=True)
    arm = models.ForeignKey("annotation.Arm", null=True, blank=True, on_delete=models.PROTECT, related_name="workers")
    instructed = models.BooleanField(default=False, help_text=_("The worker has read the texts of their arm."))
    preparing = models.BooleanField(
        default=False, help_text=_("The worker has still to practise or to pass the comprehension check.")
    )
    practised = models.PositiveSmallIntegerField(default=0, help_text=_("Practice pairs done."))
    comprehension_attempts = models.PositiveSmallIntegerField(default=0)
    ended_at = models.DateTimeField(null=True, blank=True, help_text=_("When the outcome was set."))
    quota = models.PositiveIntegerField(
        null=True,
        blank=True,
        help_text=_(
            "The judgements that the worker was asked for, if the items form fewer pairs than the study's number."
        ),
    )
    suspended = models.BooleanField(default=False, help_text=_("An owner excluded the worker, who gets no more pairs."))

    objects = WorkerQuerySet.as_manager()

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["project", "code"], name="worker_code_once"),
            models.UniqueConstraint(
                fields=["project", "return_digest"], condition=~Q(return_digest=""), name="worker_return_code_once"
            ),
            models.CheckConstraint(condition=Q(state__in=["active", "finished", "withdrawn"]), name="worker_state"),
        ]

    def __str__(self) -> str:
        return self.code

    @property
    def design(self) -> Design:
        """The settings that apply to this worker: the study's, or those of their arm."""
        return Design(self.project, self.arm if self.arm_id else None)

    @property
    def judgements_wanted(self) -> int:
        """How many judgements complete the task: the study's number, or this worker's quota if that is lower."""
        study = self.project.judgements_per_worker
        return study if self.quota is None else min(study, self.quota)

    @property
    def stopped(self) -> bool:
        """Whether the worker stopped early and may still continue."""
        return self.outcome == self.Outcome.STOPPED and self.ended_at is None and not self.suspended

    @property
    def outcome_label(self) -> str:
        """The outcome, or the state if the participation has not ended."""
        return str(dict(self.Outcome.choices).get(self.outcome, self.get_state_display()))

    @property
    def simulated(self) -> bool:
        return self.code.startswith(SIMULATED)


class PlatformIdentity(models.Model):
    """A worker's IDs on a platform or in a file; the only place that holds them. Deleting the row erases the person."""

    RETURNED = "RETURNED"
    LEFT = (RETURNED, "TIMED_OUT", "REJECTED")  # statuses of a session that the platform does not pay

    project = models.ForeignKey("annotation.Project", on_delete=models.CASCADE)
    worker = models.OneToOneField(Worker, on_delete=models.CASCADE, related_name="identity")
    platform = models.CharField(max_length=20)
    external_id = models.CharField(max_length=200, help_text=_("What the platform calls the participant."))
    study_id = models.CharField(max_length=200, blank=True, help_text=_("What the platform calls the study."))
    session_id = models.CharField(
        max_length=200, blank=True, help_text=_("The platform's latest submission or assignment of this participant.")
    )
    status = models.CharField(
        max_length=40, blank=True, help_text=_("What the platform last reported about the session.")
    )
    verified = models.BooleanField(default=False, help_text=_("The platform signed these IDs."))

    class Meta:
        verbose_name, verbose_name_plural = "platform ID", "platform IDs"
        constraints = [
            models.UniqueConstraint(fields=["project", "platform", "external_id"], name="identity_once"),
        ]

    def __str__(self) -> str:
        return self.platform


class WorkerExclusionQuerySet(models.QuerySet["WorkerExclusion"]):
    def in_force(self, project_id: int, inputs_revision: int) -> "WorkerExclusionQuerySet":
        """The exclusions that apply to model versions with this input revision."""
        not_ended = Q(until_revision=None) | Q(until_revision__gt=inputs_revision)
        return self.filter(not_ended, worker__project=project_id, since_revision__lte=inputs_revision)

    def worker_ids(self) -> set[int]:
        return set(self.values_list("worker", flat=True))


class WorkerExclusion(models.Model):
    """A range of input revisions in which no model version learns from a worker's judgements."""

    worker = models.ForeignKey(Worker, on_delete=models.CASCADE, related_name="exclusions")
    reason = models.CharField(max_length=200)
    since_revision = models.PositiveBigIntegerField()
    until_revision = models.PositiveBigIntegerField(null=True, blank=True)
    excluded_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    excluded_at = models.DateTimeField(auto_now_add=True)

    objects = WorkerExclusionQuerySet.as_manager()

    class Meta:
        verbose_name, verbose_name_plural = "excluded worker", "excluded workers"
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["worker"], condition=Q(until_revision=None), name="worker_excluded_once_at_a_time"
            ),
            models.CheckConstraint(
                condition=Q(until_revision=None) | Q(until_revision__gt=models.F("since_revision")),
                name="worker_exclusion_ends_later",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.worker_id}: {self.reason}"
