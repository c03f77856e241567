"""Audit log: who changed what, and when."""

from django.conf import settings
from django.db import models


class AuditEntry(models.Model):
    project = models.ForeignKey("annotation.Project", null=True, on_delete=models.SET_NULL, related_name="audit")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL)
    action = models.CharField(max_length=60)
    details = models.JSONField(default=dict, blank=True)
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        verbose_name, verbose_name_plural = "change", "changes"
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"{self.at:%Y-%m-%d %H:%M} {self.action}"
