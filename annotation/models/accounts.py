"""Researchers: user accounts, their second factor, project memberships and invitations."""

import hashlib
import secrets
from datetime import datetime, timedelta
from typing import ClassVar

from django.contrib.auth.models import AbstractUser
from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _


class User(AbstractUser):
    """A researcher or an administrator. Crowd workers have no account."""


class TwoFactor(models.Model):
    """The second factor of an account: an authenticator app. `services/two_factor.py` checks its codes."""

    user = models.OneToOneField(User, on_delete=models.CASCADE, related_name="two_factor")
    secret = models.TextField(editable=False, help_text=_("Encrypted with a key derived from SECRET_KEY."))
    confirmed_at = models.DateTimeField(
        null=True, blank=True, help_text=_("When the first code was entered. Until then, logging in needs no code.")
    )
    last_step = models.BigIntegerField(
        default=0, help_text=_("The time step of the last accepted code, so that no code works twice.")
    )

    def __str__(self) -> str:
        return str(self.user)


class RecoveryCode(models.Model):
    """A code that works once instead of the authenticator app. Only a digest is stored."""

    two_factor = models.ForeignKey(TwoFactor, on_delete=models.CASCADE, related_name="recovery_codes")
    digest = models.CharField(max_length=64, editable=False)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["two_factor", "digest"], name="recovery_code_once")]

    def __str__(self) -> str:
        return str(self.two_factor)


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


def token_digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def invitation_expiry() -> datetime:
    return timezone.now() + timedelta(days=7)


class InvitationQuerySet(models.QuerySet["Invitation"]):
    def usable(self) -> "InvitationQuerySet":
        """Invitations that are neither used nor expired."""
        return self.filter(used_at=None, expires_at__gt=timezone.now())


class Invitation(models.Model):
    """A single-use invitation to a project, valid for a week. Only a digest of its token is stored."""

    project = models.ForeignKey("annotation.Project", on_delete=models.CASCADE)
    role = models.CharField(max_length=10, choices=Membership.Role.choices)
    digest = models.CharField(max_length=64, unique=True, editable=False)
    email = models.EmailField(blank=True, help_text=_("The address the link was sent to; removed when it is used."))
    created_by = models.ForeignKey(User, on_delete=models.CASCADE, related_name="invitations_sent")
    expires_at = models.DateTimeField(default=invitation_expiry)
    used_at = models.DateTimeField(null=True, blank=True)
    used_by = models.ForeignKey(User, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")

    objects: ClassVar[models.Manager["Invitation"]] = InvitationQuerySet.as_manager()

    class Meta:
        ordering = ["-expires_at"]
        constraints = [
            models.CheckConstraint(condition=Q(role__in=["owner", "analyst", "viewer"]), name="invitation_role"),
        ]

    def __str__(self) -> str:
        return f"{self.role} of {self.project}, until {self.expires_at:%Y-%m-%d}"
