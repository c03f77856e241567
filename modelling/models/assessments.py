"""Assessments of workers: whether their answers look careless, different or ordinary."""

from django.db import models
from django.utils.translation import gettext_lazy as _


class WorkerAssessment(models.Model):
    """One worker's probabilities and the evidence for them, computed by a version that was fitted from scratch.

    A later version without its own row uses the last one before it. An assessment has no effect by itself.
    """

    snapshot = models.ForeignKey("modelling.ModelSnapshot", on_delete=models.CASCADE, related_name="assessments")
    worker = models.ForeignKey("annotation.Worker", on_delete=models.CASCADE, related_name="+")
    answers = models.PositiveIntegerField(help_text=_("Decided judgements that were assessed."))
    careless = models.FloatField(help_text=_("Probability that some answers follow no preferences."))
    different = models.FloatField(help_text=_("Probability of preferences that differ from the consensus."))
    ordinary = models.FloatField(help_text=_("Probability of preferences like the consensus."))
    evidence = models.JSONField(default=dict)

    class Meta:
        verbose_name, verbose_name_plural = "assessment of a worker", "assessments of workers"
        constraints = [models.UniqueConstraint(fields=["snapshot", "worker"], name="assessed_once")]

    def __str__(self) -> str:
        return f"{self.worker_id}: {self.careless:.2f}"
