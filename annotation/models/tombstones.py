"""What is left of a deleted project: that it was there, who deleted it, and where its log ended."""

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _


class Tombstone(models.Model):
    """Written before anything goes. The database lets events be deleted only for a project that has one."""

    project_number = models.PositiveBigIntegerField(unique=True, help_text=_("The project's key; never given again."))
    slug = models.CharField(max_length=60)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    events = models.PositiveBigIntegerField()
    last_hash = models.CharField(max_length=64, blank=True)
    deleted_at = models.DateTimeField(auto_now_add=True)
    removed_at = models.DateTimeField(null=True, blank=True, help_text=_("When the last of its rows was gone."))

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return self.slug
