"""Messages to other servers: where to, about what, and how each delivery went."""

import secrets
import uuid

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from modelling.outgoing import HTTPS, Target, is_host_name


def must_be_a_host_name(name: str) -> None:
    if not is_host_name(name):
        raise ValidationError(_("A name such as hooks.example.org, in small letters; no address, no wildcard."))


def webhook_salt() -> str:
    return secrets.token_hex(16)


class WebhookHost(models.Model):
    """A server that webhooks may be sent to, named by an administrator. Owners cannot add to this list."""

    host = models.CharField(_("host"), max_length=253, validators=[must_be_a_host_name])
    port = models.PositiveIntegerField(
        _("port"), default=HTTPS, validators=[MinValueValidator(1), MaxValueValidator(65_535)]
    )
    note = models.CharField(_("what for"), max_length=200, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        verbose_name = _("host for webhooks")
        verbose_name_plural = _("hosts for webhooks")
        ordering = ["host", "port"]
        constraints = [
            models.UniqueConstraint(fields=["host", "port"], name="webhook_host_once"),
            models.CheckConstraint(condition=Q(port__range=(1, 65_535)), name="webhook_host_port"),
        ]

    def __str__(self) -> str:
        return Target(self.host, self.port, "/").name


class Webhook(models.Model):
    """Where a project's news go. Its secret is made from the salt and the install's key, so no row holds it."""

    project = models.ForeignKey("annotation.Project", on_delete=models.CASCADE, related_name="webhooks")
    url = models.CharField(_("address"), max_length=500)
    on_version = models.BooleanField(_("when there is a new version"), default=True)
    on_goal = models.BooleanField(_("when the study has reached its goal"), default=True)
    active = models.BooleanField(default=True)
    salt = models.CharField(max_length=32, default=webhook_salt, editable=False)
    told_version = models.PositiveIntegerField(default=0, help_text=_("The newest version that was looked at."))
    goal_told = models.BooleanField(default=False)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["project", "url"], name="webhook_once"),
            models.CheckConstraint(condition=Q(on_version=True) | Q(on_goal=True), name="webhook_about_something"),
        ]

    def __str__(self) -> str:
        return self.url


class WebhookDelivery(models.Model):
    """One message, sent until it has arrived or was tried often enough. The same id each time it is sent."""

    class Event(models.TextChoices):
        VERSION = "version.published", _("new version")
        GOAL = "goal.reached", _("goal reached")
        TEST = "test", _("test")

    class State(models.TextChoices):
        WAITING = "waiting", _("on its way")
        DELIVERED = "delivered", _("delivered")
        FAILED = "failed", _("given up")

    uuid = models.UUIDField(unique=True, default=uuid.uuid4, editable=False)
    webhook = models.ForeignKey(Webhook, on_delete=models.CASCADE, related_name="deliveries")
    event = models.CharField(max_length=20, choices=Event.choices)
    payload = models.JSONField()
    state = models.CharField(max_length=10, choices=State.choices, default=State.WAITING)
    attempts = models.PositiveIntegerField(default=0)
    owner = models.CharField(max_length=40, blank=True)
    lease_until = models.DateTimeField(null=True, blank=True)
    not_before = models.DateTimeField(null=True, blank=True)
    status = models.PositiveIntegerField(null=True, blank=True, help_text=_("What the other server answered."))
    words = models.TextField(blank=True, help_text=_("Why it has not arrived, in plain words."))
    created_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name_plural = "webhook deliveries"
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
