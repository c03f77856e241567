"""Answers with which researchers tried the judging page."""

from django.conf import settings
from django.db import models

from annotation.models.judgements import Judgement


class TrialAnswer(models.Model):
    """A trial: not an event, without lease and slot. A table of its own, so that nothing can count it by mistake."""

    uuid = models.UUIDField(unique=True)
    project = models.ForeignKey("annotation.Project", on_delete=models.CASCADE, related_name="trial_answers")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL)
    left = models.ForeignKey("annotation.Item", on_delete=models.CASCADE, related_name="+")
    right = models.ForeignKey("annotation.Item", on_delete=models.CASCADE, related_name="+")
    choice = models.CharField(max_length=5)
    skip_reason = models.CharField(max_length=20, blank=True, choices=Judgement.SkipReason.choices)
    note = models.TextField(blank=True, max_length=2000)
    response_ms = models.PositiveIntegerField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=models.Q(choice__in=["left", "right", "tie", "skip"]), name="trial_answer_choice"
            ),
        ]

    def __str__(self) -> str:
        return str(self.uuid)
