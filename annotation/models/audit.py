"""Audit log: who changed what and when, and the record of each deleted project."""

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _


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


class Tombstone(models.Model):
    """A deleted project's record, written before any row is removed; without one, triggers refuse to delete events."""

    project_number = models.PositiveBigIntegerField(
        unique=True, help_text=_("The project's primary key, which is never reused.")
    )
    slug = models.CharField(max_length=60)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    events = models.PositiveBigIntegerField()
    last_hash = models.CharField(max_length=64, blank=True)
    deleted_at = models.DateTimeField(auto_now_add=True)
    removed_at = models.DateTimeField(null=True, blank=True, help_text=_("When its last row was removed."))

    class Meta:
        verbose_name, verbose_name_plural = "deleted study", "deleted studies"
        ordering = ["-id"]

    def __str__(self) -> str:
        return self.slug
