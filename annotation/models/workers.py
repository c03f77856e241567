"""The crowd. A worker is a random code; what a platform calls them is kept apart, so that a person can be erased."""

import secrets
from datetime import datetime, timedelta

from django.apps import apps
from django.db import models
from django.db.models import Count, Exists, OuterRef, Q
from django.utils.translation import gettext_lazy as _

# No letters or digits that are read as one another.
CODE_ALPHABET = "23456789abcdefghjkmnpqrstuvwxyz"
CODE_LENGTH = 10
SIMULATED = "simulated-"  # before the code of a worker who is nobody; no person's code holds a hyphen


def worker_code() -> str:
    return "".join(secrets.choice(CODE_ALPHABET) for _ in range(CODE_LENGTH))


# A worker who has been silent for longer is counted as having dropped out; they may come back.
STILL_HERE = timedelta(minutes=15)


class WorkerQuerySet(models.QuerySet["Worker"]):
    def that_may_be_told(self) -> "WorkerQuerySet":
        """All but those who were erased and took along all they had said, whatever a version still knows of them."""
        standing = apps.get_model("annotation", "Judgement").objects.standing().filter(worker=OuterRef("pk"))
        return self.filter(~Q(outcome=Worker.ERASED) | Exists(standing))

    def by_activity(self, now: datetime) -> dict[str, int]:
        """How many are at work now, have finished, have dropped out, or have withdrawn."""
        given, since = apps.get_model("annotation", "Judgement").objects.order_by(), now - STILL_HERE
        lately = given.filter(project__in=self.values("project"), created_at__gte=since).values("worker")
        silent = ~Exists(given.filter(worker=OuterRef("pk")))
        active, here = Q(state="active"), Q(pk__in=lately) | Q(silent, joined_at__gte=since)
        counts = self.aggregate(
            in_all=Count("pk", filter=active),
            active=Count("pk", filter=active & here),
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

    ERASED = "erased"  # the outcome of a person who is gone

    project = models.ForeignKey("annotation.Project", on_delete=models.CASCADE, related_name="workers")
    code = models.CharField(max_length=40, default=worker_code)
    traits = models.JSONField(default=dict, blank=True, help_text=_("Answers to the questionnaire."))
    state = models.CharField(max_length=10, choices=State.choices, default=State.ACTIVE)
    outcome = models.CharField(max_length=40, blank=True)
    consented_at = models.DateTimeField(null=True, blank=True)
    joined_at = models.DateTimeField(auto_now_add=True)

    objects = WorkerQuerySet.as_manager()

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["project", "code"], name="worker_code_once"),
            models.CheckConstraint(condition=Q(state__in=["active", "finished", "withdrawn"]), name="worker_state"),
        ]

    def __str__(self) -> str:
        return self.code

    @property
    def simulated(self) -> bool:
        return self.code.startswith(SIMULATED)


class PlatformIdentity(models.Model):
    """The one place where a platform's or a file's name for a worker is kept. Deleting the row erases the person."""

    project = models.ForeignKey("annotation.Project", on_delete=models.CASCADE)
    worker = models.OneToOneField(Worker, on_delete=models.CASCADE, related_name="identity")
    platform = models.CharField(max_length=20)
    external_id = models.CharField(max_length=200)

    class Meta:
        verbose_name_plural = "platform identities"
        constraints = [
            models.UniqueConstraint(fields=["project", "platform", "external_id"], name="identity_once"),
        ]

    def __str__(self) -> str:
        return self.platform
