"""Researchers: their log-ins, their roles in projects, and invitations to join one."""

import secrets
from datetime import datetime, timedelta

from django.contrib.auth.models import AbstractUser
from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _


class User(AbstractUser):
    """A researcher or an administrator. Crowd workers have no account."""


class Membership(models.Model):
    class Role(models.TextChoices):
        OWNER = "owner", _("owner")
        ANALYST = "analyst", _("analyst")
        VIEWER = "viewer", _("viewer")

    project = models.ForeignKey("annotation.Project", on_delete=models.CASCADE)
    user = models.ForeignKey(User, on_delete=models.CASCADE)
    role = models.CharField(max_length=10, choices=Role.choices, default=Role.VIEWER)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["project", "user"], name="membership_once"),
            models.CheckConstraint(condition=Q(role__in=["owner", "analyst", "viewer"]), name="membership_role"),
        ]

    def __str__(self) -> str:
        return f"{self.user} is {self.role} of {self.project}"


def invitation_token() -> str:
    return secrets.token_urlsafe(24)


def invitation_expiry() -> datetime:
    return timezone.now() + timedelta(days=7)


class Invitation(models.Model):
    """To a project, for one use, for a week."""

    project = models.ForeignKey("annotation.Project", on_delete=models.CASCADE)
    role = models.CharField(max_length=10, choices=Membership.Role.choices)
    token = models.CharField(max_length=40, unique=True, default=invitation_token)
    created_by = models.ForeignKey(User, on_delete=models.CASCADE, related_name="invitations_sent")
    expires_at = models.DateTimeField(default=invitation_expiry)
    used_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(role__in=["owner", "analyst", "viewer"]), name="invitation_role"),
        ]

    def __str__(self) -> str:
        return f"{self.role} of {self.project}, until {self.expires_at:%Y-%m-%d}"
