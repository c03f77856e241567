"""The preparation before a worker's first pair, and the checks between pairs."""

import uuid

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _


class Preparation(models.Model):
    """Practice pairs with feedback, a comprehension check and gold pairs. A project without this row has none."""

    class Consequence(models.TextChoices):
        """What happens to a worker who answers too many gold pairs wrongly. No one is rejected."""

        FLAG = "flag", _("the worker is flagged for a manual review")
        FAILED_CHECKS = "failed_checks", _("the participation ends with the outcome “failed checks”")

    project = models.OneToOneField("annotation.Project", on_delete=models.CASCADE, related_name="preparation")
    practice = models.JSONField(
        default=list, blank=True, help_text=_("A list of objects with first, second, answer and explanation.")
    )
    comprehension = models.JSONField(
        default=list, blank=True, help_text=_("A list of objects with question, choices and answer.")
    )
    gold = models.JSONField(
        _("gold pairs"), default=list, blank=True, help_text=_("A list of objects with better and worse.")
    )
    gold_limit = models.PositiveSmallIntegerField(
        _("wrong answers to gold pairs that trigger the rule"),
        default=0,
        help_text=_("0 if there are no gold pairs."),
    )
    gold_consequence = models.CharField(
        _("consequence of wrong answers to gold pairs"),
        max_length=20,
        choices=Consequence.choices,
        default=Consequence.FLAG,
    )

    def __str__(self) -> str:
        return str(self.project_id)


class WorkerCheck(models.Model):
    """A check shown as a pair: an instruction (“choose First”) or a gold pair. It is not a judgement of any item."""

    class Kind(models.TextChoices):
        ATTENTION = "attention", _("attention check")
        GOLD = "gold", _("gold pair")

    project = models.ForeignKey("annotation.Project", on_delete=models.CASCADE)
    worker = models.ForeignKey("annotation.Worker", on_delete=models.CASCADE, related_name="checks")
    public_id = models.UUIDField(unique=True, default=uuid.uuid4, editable=False)
    number = models.PositiveSmallIntegerField()
    kind = models.CharField(max_length=10, choices=Kind.choices, default=Kind.ATTENTION)
    pair = models.JSONField(default=dict, blank=True, help_text=_("The texts of a gold pair as shown: left and right."))
    expected = models.CharField(max_length=5, choices=[("left", _("left")), ("right", _("right"))])
    choice = models.CharField(max_length=5, blank=True)
    issued_at = models.DateTimeField(auto_now_add=True)
    answered_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["number"]
        constraints = [
            models.UniqueConstraint(fields=["worker", "number"], name="check_once"),
            models.CheckConstraint(condition=Q(expected__in=["left", "right"]), name="check_expected"),
            models.CheckConstraint(condition=Q(kind__in=["attention", "gold"]), name="check_kind"),
        ]

    def __str__(self) -> str:
        return f"{self.worker_id}: {self.number}"
