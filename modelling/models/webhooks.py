"""Webhooks, the hosts they may be sent to, and their deliveries."""

import secrets
import uuid

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from modelling.models.host_names import HTTPS_PORT, format_host, is_host_name
from modelling.models.leases import LeasedRow


def must_be_a_host_name(name: str) -> None:
    if not is_host_name(name):
        raise ValidationError(
            _("Enter a lower-case host name such as hooks.example.org, without wildcards. IP addresses are refused.")
        )


def webhook_salt() -> str:
    return secrets.token_hex(16)


class WebhookHost(models.Model):
    """A host that webhooks may be sent to. Only administrators edit this list."""

    host = models.CharField(_("host"), max_length=253, validators=[must_be_a_host_name])
    port = models.PositiveIntegerField(
        _("port"), default=HTTPS_PORT, validators=[MinValueValidator(1), MaxValueValidator(65_535)]
    )
    note = models.CharField(_("purpose"), max_length=200, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        verbose_name, verbose_name_plural = "host for webhooks", "hosts for webhooks"
        ordering = ["host", "port"]
        constraints = [
            models.UniqueConstraint(fields=["host", "port"], name="webhook_host_once"),
            models.CheckConstraint(condition=Q(port__range=(1, 65_535)), name="webhook_host_port"),
        ]

    def __str__(self) -> str:
        return format_host(self.host, self.port)


class Webhook(models.Model):
    """A URL that is notified about a project. Its secret is derived from the salt and the install's key, not stored."""

    project = models.ForeignKey("annotation.Project", on_delete=models.CASCADE, related_name="webhooks")
    url = models.CharField(_("address"), max_length=500)
    on_version = models.BooleanField(_("when there is a new version"), default=True)
    on_goal = models.BooleanField(_("when the study is complete"), default=True)
    active = models.BooleanField(default=True)
    salt = models.CharField(max_length=32, default=webhook_salt, editable=False)
    notified_version = models.PositiveIntegerField(
        default=0, db_column="told_version", help_text=_("The newest version checked for messages.")
    )
    goal_notified = models.BooleanField(default=False, db_column="goal_told")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["project", "url"], name="webhook_once"),
            models.CheckConstraint(condition=Q(on_version=True) | Q(on_goal=True), name="webhook_about_something"),
        ]

    def __str__(self) -> str:
        return self.url


class WebhookDelivery(LeasedRow):
    """One message, sent with the same id until it is delivered or its attempts are used up."""

    class Event(models.TextChoices):
        VERSION = "version.published", _("new version")
        GOAL = "goal.reached", _("study complete")
        TEST = "test", _("test")

    class State(models.TextChoices):
        WAITING = "waiting", _("waiting")
        DELIVERED = "delivered", _("delivered")
        FAILED = "failed", _("failed")

    uuid = models.UUIDField(unique=True, default=uuid.uuid4, editable=False)
    webhook = models.ForeignKey(Webhook, on_delete=models.CASCADE, related_name="deliveries")
    event = models.CharField(max_length=20, choices=Event.choices)
    payload = models.JSONField()
    state = models.CharField(max_length=10, choices=State.choices, default=State.WAITING)
    attempts = models.PositiveIntegerField(default=0)
    not_before = models.DateTimeField(null=True, blank=True)
    status = models.PositiveIntegerField(null=True, blank=True, help_text=_("The HTTP status of the response."))
    message = models.TextField(blank=True, db_column="words", help_text=_("Why it was not delivered."))
    created_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name, verbose_name_plural = "webhook message", "webhook messages"
        ordering = ["-id"]
        constraints = [
            models.CheckConstraint(condition=Q(state__in=["waiting", "delivered", "failed"]), name="delivery_state"),
            models.UniqueConstraint(
                fields=["webhook", "event"], condition=Q(state="waiting"), name="one_message_of_a_kind_waits"
            ),
        ]
        indexes = [models.Index(fields=["not_before"], name="delivery_waiting", condition=Q(state="waiting"))]

    def __str__(self) -> str:
        return str(self.uuid)
