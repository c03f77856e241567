"""Assignments (leases), judgements, retractions, notes, suggested pairs, and researchers' trial answers."""

import uuid
from typing import ClassVar

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _

from annotation.models.items import Item
from annotation.models.workers import Worker


class Assignment(models.Model):
    """A pair leased to a worker for a limited time, with the order shown and the reason it was chosen."""

    class Purpose(models.TextChoices):
        NORMAL = "normal", _("normal")
        REPEAT = "repeat", _("planned repeat")
        ATTENTION = "attention", _("attention check")
        REISSUED = "again", _("reissued after an undo")

    public_id = models.UUIDField(unique=True, default=uuid.uuid4, editable=False)
    project = models.ForeignKey("annotation.Project", on_delete=models.CASCADE)
    worker = models.ForeignKey("annotation.Worker", on_delete=models.CASCADE, related_name="assignments")
    item_lo = models.ForeignKey("annotation.Item", on_delete=models.PROTECT, related_name="+")
    item_hi = models.ForeignKey("annotation.Item", on_delete=models.PROTECT, related_name="+")
    lo_is_left = models.BooleanField()
    tie_offered = models.BooleanField(default=True)
    round = models.PositiveIntegerField(default=1)
    purpose = models.CharField(max_length=10, choices=Purpose.choices, default=Purpose.NORMAL)
    policy = models.CharField(max_length=40)
    propensity = models.FloatField(null=True, help_text=_("The probability with which the policy chose this pair."))
    slot = models.PositiveIntegerField(
        null=True,
        blank=True,
        help_text=_("Which of the pair's slots this worker takes; empty when it was released."),
    )
    issued_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    closed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name, verbose_name_plural = "leased pair", "leased pairs"
        constraints = [
            models.CheckConstraint(condition=Q(item_lo__lt=F("item_hi")), name="assignment_canonical_order"),
            models.UniqueConstraint(fields=["worker", "item_lo", "item_hi", "round"], name="assignment_once_per_round"),
            models.UniqueConstraint(fields=["item_lo", "item_hi", "slot"], name="assignment_slot_once"),
            models.CheckConstraint(condition=Q(slot__gte=1), name="assignment_slot_from_one"),
            models.CheckConstraint(condition=Q(round__gte=1), name="assignment_round_from_one"),
            models.CheckConstraint(condition=Q(expires_at__gt=F("issued_at")), name="assignment_expires_later"),
        ]
        indexes = [
            models.Index(fields=["project", "item_lo", "item_hi"], name="assignment_by_pair"),
            models.Index(
                fields=["project", "expires_at"],
                name="assignment_live",
                condition=Q(closed_at=None, slot__isnull=False),
            ),
            models.Index(fields=["worker"], name="assignment_held", condition=Q(closed_at=None)),
        ]

    def __str__(self) -> str:
        return str(self.public_id)

    @property
    def left(self) -> Item:
        return self.item_lo if self.lo_is_left else self.item_hi

    @property
    def right(self) -> Item:
        return self.item_hi if self.lo_is_left else self.item_lo


class JudgementQuerySet(models.QuerySet["Judgement"]):
    def not_retracted(self) -> "JudgementQuerySet":
        return self.filter(retraction__isnull=True)

    def answers(self) -> "JudgementQuerySet":
        """Judgements that were neither retracted nor skipped."""
        return self.not_retracted().exclude(choice=Judgement.Choice.SKIP)

    def visible(self) -> "JudgementQuerySet":
        """Exclude the judgements that were removed with an erased worker."""
        return self.exclude(worker__outcome=Worker.ERASED, retraction__isnull=False)


class Judgement(models.Model):
    """An immutable event: triggers refuse UPDATE and DELETE."""

    class Choice(models.TextChoices):
        LO = "lo", _("the item with the lower id")
        HI = "hi", _("the item with the higher id")
        TIE = "tie", _("equally good")
        SKIP = "skip", _("can't decide")

    class SkipReason(models.TextChoices):
        LEFT_UNCLEAR = "left_unclear", _("I don't understand the left one")
        RIGHT_UNCLEAR = "right_unclear", _("I don't understand the right one")
        BOTH_UNCLEAR = "both_unclear", _("I don't understand either")
        BOTH_POOR = "both_poor", _("both are poor")
        OTHER = "other", _("another reason")

    class Source(models.TextChoices):
        BROWSER = "browser", _("browser")
        API = "api", _("API")
        IMPORT = "import", _("import")
        SIMULATED = "simulated", _("simulated")

    uuid = models.UUIDField(unique=True)
    project = models.ForeignKey("annotation.Project", on_delete=models.PROTECT, related_name="judgements")
    assignment = models.OneToOneField(Assignment, null=True, blank=True, on_delete=models.PROTECT)
    worker = models.ForeignKey("annotation.Worker", on_delete=models.PROTECT, related_name="judgements")
    item_lo = models.ForeignKey("annotation.Item", on_delete=models.PROTECT, related_name="+")
    item_hi = models.ForeignKey("annotation.Item", on_delete=models.PROTECT, related_name="+")
    round = models.PositiveIntegerField(default=1)
    choice = models.CharField(max_length=4, choices=Choice.choices)
    skip_reason = models.CharField(max_length=20, blank=True, choices=SkipReason.choices)
    lo_was_left = models.BooleanField(null=True, help_text=_("The order shown; unknown for imported judgements."))
    source = models.CharField(max_length=10, choices=Source.choices)
    response_ms = models.PositiveIntegerField(null=True, blank=True)
    clock_doubtful = models.BooleanField(
        default=False, help_text=_("The browser's response time was outside the lease.")
    )
    late = models.BooleanField(default=False, help_text=_("Received after the lease had expired."))
    sequence = models.PositiveBigIntegerField()
    previous_hash = models.CharField(max_length=64, blank=True)
    hash = models.CharField(max_length=64)
    created_at = models.DateTimeField()

    objects: ClassVar[models.Manager["Judgement"]] = JudgementQuerySet.as_manager()

    class Meta:
        ordering = ["sequence"]
        constraints = [
            models.CheckConstraint(condition=Q(item_lo__lt=F("item_hi")), name="judgement_canonical_order"),
            models.UniqueConstraint(fields=["worker", "item_lo", "item_hi", "round"], name="judgement_once_per_round"),
            models.UniqueConstraint(fields=["project", "sequence"], name="judgement_sequence_once"),
            models.CheckConstraint(condition=Q(round__gte=1), name="judgement_round_from_one"),
            models.CheckConstraint(condition=Q(sequence__gte=1), name="judgement_sequence_from_one"),
            models.CheckConstraint(condition=Q(choice__in=["lo", "hi", "tie", "skip"]), name="judgement_choice"),
            models.CheckConstraint(
                condition=Q(choice="skip", skip_reason__gt="") | (~Q(choice="skip") & Q(skip_reason="")),
                name="judgement_reason_only_when_skipped",
            ),
            models.CheckConstraint(
                condition=Q(source__in=["browser", "api", "import", "simulated"]), name="judgement_source"
            ),
            models.CheckConstraint(
                condition=~Q(source="browser") | Q(assignment__isnull=False), name="judgement_browser_has_assignment"
            ),
        ]
        indexes = [models.Index(fields=["project", "item_lo", "item_hi"], name="judgement_by_pair")]

    def __str__(self) -> str:
        return str(self.uuid)

    @property
    def choice_shown(self) -> str:
        """The choice as the worker made it: left, right, tie or skip."""
        if self.choice not in (self.Choice.LO, self.Choice.HI):
            return self.choice
        return "left" if (self.choice == self.Choice.LO) == self.lo_was_left else "right"


class Retraction(models.Model):
    """The undo of a judgement: an immutable event in the same sequence and hash chain."""

    uuid = models.UUIDField(unique=True)
    project = models.ForeignKey("annotation.Project", on_delete=models.PROTECT, related_name="retractions")
    judgement = models.OneToOneField(Judgement, on_delete=models.PROTECT)
    sequence = models.PositiveBigIntegerField()
    previous_hash = models.CharField(max_length=64, blank=True)
    hash = models.CharField(max_length=64)
    created_at = models.DateTimeField()

    class Meta:
        verbose_name, verbose_name_plural = "retracted judgement", "retracted judgements"
        ordering = ["sequence"]
        constraints = [
            models.UniqueConstraint(fields=["project", "sequence"], name="retraction_sequence_once"),
            models.CheckConstraint(condition=Q(sequence__gte=1), name="retraction_sequence_from_one"),
        ]

    def __str__(self) -> str:
        return str(self.uuid)


class JudgementNote(models.Model):
    """A worker's comment on a judgement; outside the hash chain, so that it can be erased."""

    judgement = models.OneToOneField(Judgement, on_delete=models.PROTECT, related_name="note")
    text = models.TextField(max_length=2000)

    class Meta:
        verbose_name, verbose_name_plural = "comment on a judgement", "comments on judgements"

    def __str__(self) -> str:
        return f"note on {self.judgement_id}"


class ImportedDetails(models.Model):
    """Additional data about an imported judgement; outside the hash chain, so that it can be erased.

    The time is here because `Judgement.created_at` is when the event was appended, which the updater relies on.
    """

    judgement = models.OneToOneField(Judgement, on_delete=models.PROTECT, related_name="details")
    judged_at = models.DateTimeField(null=True, blank=True, help_text=_("The time in the file."))
    columns = models.JSONField(default=dict, blank=True, help_text=_("Columns of the file that Concord does not use."))

    class Meta:
        verbose_name_plural = "imported details"

    def __str__(self) -> str:
        return f"details of {self.judgement_id}"


class Suggestion(models.Model):
    """An informative pair for the model. The modelling app writes these rows; pair selection reads them."""

    project = models.ForeignKey("annotation.Project", on_delete=models.CASCADE)
    worker = models.ForeignKey("annotation.Worker", null=True, blank=True, on_delete=models.CASCADE)
    item_lo = models.ForeignKey("annotation.Item", on_delete=models.CASCADE, related_name="+")
    item_hi = models.ForeignKey("annotation.Item", on_delete=models.CASCADE, related_name="+")
    gain = models.FloatField(help_text=_("What an answer would teach per second; for a random pair it is about 1."))
    issued = models.PositiveIntegerField(
        default=0, help_text=_("How often workers got it. Suggestions that few workers got come first.")
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        verbose_name, verbose_name_plural = "suggested pair", "suggested pairs"
        constraints = [
            models.CheckConstraint(condition=Q(item_lo__lt=F("item_hi")), name="suggestion_canonical_order"),
        ]
        indexes = [models.Index(fields=["project", "issued", "-gain"], name="suggestion_best_first")]

    def __str__(self) -> str:
        return f"{self.item_lo_id} against {self.item_hi_id}"


class TrialAnswer(models.Model):
    """A researcher's trial answer, without event, lease or slot. In its own table, so that it is never counted."""

    uuid = models.UUIDField(unique=True)
    project = models.ForeignKey("annotation.Project", on_delete=models.CASCADE, related_name="trial_answers")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL)
    left = models.ForeignKey("annotation.Item", on_delete=models.CASCADE, related_name="+")
    right = models.ForeignKey("annotation.Item", on_delete=models.CASCADE, related_name="+")
    choice = models.CharField(max_length=5)
    skip_reason = models.CharField(max_length=20, blank=True, choices=Judgement.SkipReason.choices)
    note = models.TextField(blank=True, max_length=2000)
    response_ms = models.PositiveIntegerField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=models.Q(choice__in=["left", "right", "tie", "skip"]), name="trial_answer_choice"
            ),
        ]

    def __str__(self) -> str:
        return str(self.uuid)
