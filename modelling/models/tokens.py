"""API tokens. Only a hash of each token is stored."""

from datetime import datetime, timedelta

from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from annotation.models import User

LAST_USED_PRECISION = timedelta(minutes=1)


class ApiTokenQuerySet(models.QuerySet["ApiToken"]):
    def usable(self, now: datetime) -> "ApiTokenQuerySet":
        """Tokens of active users that are neither revoked nor expired."""
        return self.filter(revoked_at=None, expires_at__gt=now, user__is_active=True)

    def mark_used(self, now: datetime) -> None:
        """Write `last_used_at` at most once a minute, so that reading through the API causes few writes."""
        self.filter(Q(last_used_at=None) | Q(last_used_at__lt=now - LAST_USED_PRECISION)).update(last_used_at=now)


class ApiToken(models.Model):
    """A user's API token, limited by its scope and by the user's role."""

    class Scope(models.TextChoices):
        READ = "read", _("read")
        WRITE = "write", _("read and write")

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="api_tokens")
    project = models.ForeignKey(
        "annotation.Project",
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="api_tokens",
        help_text=_("The only project it gives access to; if empty, all projects of its user."),
    )
    name = models.CharField(_("name"), max_length=60)
    prefix = models.CharField(max_length=12, unique=True, help_text=_("The part that is not secret."))
    digest = models.CharField(max_length=64, help_text=_("SHA-256 of the token; the token itself is not stored."))
    scope = models.CharField(_("permissions"), max_length=10, choices=Scope.choices, default=Scope.READ)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    last_used_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    objects = ApiTokenQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.CheckConstraint(condition=Q(scope__in=["read", "write"]), name="api_token_scope"),
            models.CheckConstraint(condition=~Q(digest=""), name="api_token_digest_not_empty"),
        ]

    def __str__(self) -> str:
        return self.prefix

    @property
    def is_usable(self) -> bool:
        return self.revoked_at is None and self.expires_at > timezone.now()
