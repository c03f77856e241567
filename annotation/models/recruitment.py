"""How a project recruits workers: platform, codes, personal invitations and submission events from the platform."""

from datetime import datetime
from decimal import Decimal
from typing import ClassVar

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _


class Recruitment(models.Model):
    """The recruitment settings of one project. A project without this row is open to everyone with the link."""

    class Platform(models.TextChoices):
        NONE = "", _("none: everyone with the link")
        PROLIFIC = "prolific", "Prolific"
        MTURK = "mturk", "Amazon Mechanical Turk"
        GENERIC = "generic", _("another panel")
        INVITED = "invited", _("invitations: one link for each person")

    project = models.OneToOneField("annotation.Project", on_delete=models.CASCADE, related_name="recruitment")
    platform = models.CharField(_("platform"), max_length=20, blank=True, choices=Platform.choices)
    study_id = models.CharField(
        _("ID of the study on the platform"),
        max_length=200,
        blank=True,
        help_text=_("Workers who arrive with another study ID are refused. If empty, any study ID is accepted."),
    )
    participant_parameter = models.CharField(
        _("parameter with the participant's ID"), max_length=40, blank=True, default="participant"
    )
    study_parameter = models.CharField(_("parameter with the study's ID"), max_length=40, blank=True)
    session_parameter = models.CharField(_("parameter with the session's ID"), max_length=40, blank=True)
    completion_url = models.CharField(
        _("link back to the panel"),
        max_length=500,
        blank=True,
        help_text=_("{code}, {participant} and {session} are replaced. If empty, workers copy the code."),
    )
    signed_links = models.BooleanField(
        _("only signed links"),
        default=False,
        help_text=_("Refuse workers whose link was not signed by Prolific. Turn on “secure URL” in Prolific first."),
    )
    jwks = models.TextField(
        _("Prolific's public keys"),
        blank=True,
        max_length=20_000,
        help_text=_(
            "The text at https://api.prolific.com/.well-known/study/jwks.json. Paste it again if it has changed."
        ),
    )
    webhook_secret = models.CharField(
        _("secret of Prolific's webhooks"),
        max_length=200,
        blank=True,
        help_text=_("It is not shown again. With it, the pairs of workers who return the task are released at once."),
    )
    codes = models.JSONField(_("completion codes"), default=dict, blank=True)
    reward = models.DecimalField(
        _("pay per worker"),
        max_digits=8,
        decimal_places=2,
        default=Decimal(0),
        validators=[MinValueValidator(Decimal(0))],
        help_text=_("Platform fees are not included."),
    )
    currency = models.CharField(
        _("currency"), max_length=3, default="GBP", choices=[(code, code) for code in ("GBP", "USD", "EUR")]
    )
    hourly_target = models.DecimalField(
        _("target pay per hour"),
        max_digits=8,
        decimal_places=2,
        default=Decimal(0),
        validators=[MinValueValidator(Decimal(0))],
        help_text=_("You are warned below this or the platform's minimum (Prolific: £6 or $8 per hour)."),
    )
    estimated_minutes = models.PositiveIntegerField(
        _("estimated minutes per worker"),
        default=0,
        validators=[MaxValueValidator(1440)],
        help_text=_("Used until the first workers have finished; then the median of their times counts."),
    )
    places = models.PositiveIntegerField(_("workers wanted"), default=0, validators=[MaxValueValidator(1_000_000)])
    pilot_workers = models.PositiveIntegerField(
        _("workers in the pilot"),
        default=0,
        validators=[MaxValueValidator(10_000)],
        help_text=_(
            "Only this many workers may join; when all of them have ended, the study pauses. 0 means no pilot."
        ),
    )
    arrivals = models.PositiveIntegerField(
        default=0, editable=False, help_text=_("Browsers that opened the welcome page, whether or not they joined.")
    )
    unreplaced_at = models.DateTimeField(
        null=True, blank=True, editable=False, help_text=_("When a worker last arrived with unreplaced placeholders.")
    )
    unverified_at = models.DateTimeField(
        null=True,
        blank=True,
        editable=False,
        help_text=_("When a worker last arrived with a link that was not verified."),
    )

    class Meta:
        verbose_name_plural = "recruitment"
        constraints = [
            models.CheckConstraint(
                condition=Q(platform__in=["", "prolific", "mturk", "generic", "invited"]), name="recruitment_platform"
            ),
        ]

    def __str__(self) -> str:
        return self.platform or "direct"

    @property
    def promises_completion(self) -> bool:
        """Whether workers get a code or a link when they press Finish."""
        return bool(self.platform or self.codes)


class WorkerInvitationQuerySet(models.QuerySet["WorkerInvitation"]):
    def unused(self) -> "WorkerInvitationQuerySet":
        """Invitations that can still be used to join."""
        return self.filter(used_at=None, revoked_at=None, expires_at__gt=timezone.now())


class WorkerInvitation(models.Model):
    """A link for one person. Only a digest of its token is stored; the label is erased with the person."""

    class State(models.TextChoices):
        UNUSED = "unused", _("not used")
        USED = "used", _("used")
        EXPIRED = "expired", _("expired")
        REVOKED = "revoked", _("revoked")

    project = models.ForeignKey("annotation.Project", on_delete=models.CASCADE, related_name="worker_invitations")
    label = models.CharField(max_length=200, blank=True, help_text=_("An address or a name; empty once erased."))
    digest = models.CharField(max_length=64, unique=True, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    objects: ClassVar[models.Manager["WorkerInvitation"]] = WorkerInvitationQuerySet.as_manager()

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(
                fields=["project", "label"],
                condition=~Q(label="") & Q(revoked_at=None),
                name="worker_invitation_once",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.project_id}: {self.state}"

    @property
    def state(self) -> str:
        return self.state_at(timezone.now())

    def state_at(self, now: datetime) -> str:
        if self.revoked_at:
            return self.State.REVOKED
        if self.used_at:
            return self.State.USED
        return self.State.UNUSED if self.expires_at > now else self.State.EXPIRED

    @property
    def state_label(self) -> str:
        return str(self.State(self.state).label)


class PlatformEvent(models.Model):
    """One message from a platform, stored once however often it is sent."""

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
