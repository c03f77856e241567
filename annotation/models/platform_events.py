"""Events that a platform reported about its submissions."""

from django.db import models
from django.utils.translation import gettext_lazy as _


class PlatformEvent(models.Model):
    """One message of a platform, stored once however often it is sent."""

    project = models.ForeignKey("annotation.Project", on_delete=models.CASCADE, related_name="platform_events")
    worker = models.ForeignKey(
        "annotation.Worker", null=True, blank=True, on_delete=models.CASCADE, related_name="platform_events"
    )
    event_id = models.CharField(max_length=200)
    session_id = models.CharField(max_length=200, help_text=_("The submission that the event is about."))
    status = models.CharField(max_length=40)
    sent_at = models.DateTimeField()
    received_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["project", "event_id"], name="platform_event_once"),
        ]
        indexes = [models.Index(fields=["project", "session_id"], name="platform_event_by_session")]

    def __str__(self) -> str:
        return f"{self.session_id}: {self.status}"
