"""What workers do before their first pair, and the attention checks between pairs."""

import uuid

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _


class Preparation(models.Model):
    """Practice pairs with feedback and a comprehension check. A project without this row has neither."""

    project = models.OneToOneField("annotation.Project", on_delete=models.CASCADE, related_name="preparation")
    practice = models.JSONField(
        default=list, blank=True, help_text=_("A list of objects with first, second, answer and explanation.")
    )
    comprehension = models.JSONField(
        default=list, blank=True, help_text=_("A list of objects with question, choices and answer.")
    )

    def __str__(self) -> str:
        return str(self.project_id)


class AttentionCheck(models.Model):
    """An instruction shown as a pair (“choose First”), which is not a judgement of any item."""

    project = models.ForeignKey("annotation.Project", on_delete=models.CASCADE)
    worker = models.ForeignKey("annotation.Worker", on_delete=models.CASCADE, related_name="attention_checks")
    public_id = models.UUIDField(unique=True, default=uuid.uuid4, editable=False)
    number = models.PositiveSmallIntegerField()
    expected = models.CharField(max_length=5, choices=[("left", _("left")), ("right", _("right"))])
    choice = models.CharField(max_length=5, blank=True)
    issued_at = models.DateTimeField(auto_now_add=True)
    answered_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["number"]
        constraints = [
            models.UniqueConstraint(fields=["worker", "number"], name="attention_check_once"),
            models.CheckConstraint(condition=Q(expected__in=["left", "right"]), name="attention_check_expected"),
        ]

    def __str__(self) -> str:
        return f"{self.worker_id}: {self.number}"
