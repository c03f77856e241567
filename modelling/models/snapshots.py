"""Versions of the model, immutable, with what pages and files show of each."""

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _


class ModelSnapshot(models.Model):
    """One fit, immutable: everything needed to explain a ranking later."""

    class Kind(models.TextChoices):
        REFIT = "refit", _("fitted from scratch")
        STEP = "step", _("learned from new judgements")

    project = models.ForeignKey("annotation.Project", on_delete=models.CASCADE, related_name="snapshots")
    number = models.PositiveIntegerField()
    parent = models.ForeignKey("self", null=True, blank=True, on_delete=models.SET_NULL)
    kind = models.CharField(max_length=10, choices=Kind.choices)
    first_sequence = models.PositiveBigIntegerField()
    last_sequence = models.PositiveBigIntegerField()
    inputs_revision = models.PositiveBigIntegerField()
    included = models.PositiveIntegerField()
    excluded = models.JSONField(default=dict, help_text=_("Judgements left out, by reason."))
    settings = models.JSONField(default=dict)
    seed = models.PositiveBigIntegerField()
    data_hash = models.CharField(max_length=64)
    code_version = models.CharField(max_length=40)
    lower_bound = models.FloatField(null=True)
    diagnostics = models.JSONField(default=dict)
    checksum = models.CharField(max_length=64, help_text=_("SHA-256 of the arrays."))
    base = models.CharField(
        max_length=64, blank=True, help_text=_("The checksum of the arrays that these are stored as a change of.")
    )
    refined = models.BooleanField(
        default=False, help_text=_("Whether its numbers come from draws of the exact posterior.")
    )
    seconds = models.FloatField()
    pruned_at = models.DateTimeField(
        null=True, blank=True, help_text=_("When the arrays were thrown away; the scores stay.")
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-number"]
        get_latest_by = "number"
        constraints = [
            models.UniqueConstraint(fields=["project", "number"], name="snapshot_number_once"),
            models.CheckConstraint(condition=Q(kind__in=["refit", "step"]), name="snapshot_kind"),
            models.CheckConstraint(
                condition=Q(last_sequence__gte=models.F("first_sequence")) | Q(last_sequence=0),
                name="snapshot_sequence_order",
            ),
        ]

    def __str__(self) -> str:
        return _("version %(number)d") % {"number": self.number}


class SnapshotArrays(models.Model):
    """The arrays of a snapshot (.npz) where several machines must read them."""

    project = models.ForeignKey("annotation.Project", on_delete=models.CASCADE)
    checksum = models.CharField(max_length=64)
    content = models.BinaryField()

    class Meta:
        verbose_name_plural = "snapshot arrays"
        constraints = [models.UniqueConstraint(fields=["project", "checksum"], name="arrays_once")]

    def __str__(self) -> str:
        return self.checksum[:12]


class ConsensusScore(models.Model):
    """What the crowd agrees on about one item, with its uncertainty, in one snapshot."""

    snapshot = models.ForeignKey(ModelSnapshot, on_delete=models.CASCADE, related_name="scores")
    item = models.ForeignKey("annotation.Item", on_delete=models.PROTECT, related_name="+")
    mean = models.FloatField()
    sd = models.FloatField()
    rank = models.PositiveIntegerField()
    rank_low = models.PositiveIntegerField(help_text=_("Best rank of the 90 % interval."))
    rank_high = models.PositiveIntegerField(help_text=_("Worst rank of the 90 % interval."))
    top_probability = models.FloatField(help_text=_("Chance of being among the ten best."))
    polarisation = models.FloatField(help_text=_("How much workers' own scores differ from each other."))
    judgements = models.PositiveIntegerField()

    class Meta:
        ordering = ["rank"]
        constraints = [
            models.UniqueConstraint(fields=["snapshot", "item"], name="score_once"),
            models.CheckConstraint(condition=Q(sd__gte=0), name="score_sd_not_negative"),
            models.CheckConstraint(condition=Q(rank__gte=1), name="score_rank_from_one"),
        ]

    def __str__(self) -> str:
        return f"{self.rank}. {self.item_id}"


class ScoreboardEntry(models.Model):
    """How well one method foresaw the judgements that a version then learned from: sums, so that entries add up."""

    class Method(models.TextChoices):
        PERSONAL = "personal", _("crowdGPPL, each worker's own preferences")
        CONSENSUS = "consensus", _("crowdGPPL, the consensus")
        GPPL = "gppl", _("GPPL, one preference for all")
        BRADLEY_TERRY = "bradley_terry", _("Bradley-Terry, without texts")

    snapshot = models.ForeignKey(ModelSnapshot, on_delete=models.CASCADE, related_name="scoreboard")
    method = models.CharField(max_length=20, choices=Method.choices)
    labels = models.PositiveIntegerField()
    decided = models.PositiveIntegerField(help_text=_("Labels that were not a tie; only these are right or wrong."))
    correct = models.PositiveIntegerField()
    log_loss = models.FloatField()
    brier = models.FloatField()
    calibration = models.JSONField(
        default=list, help_text=_("For each tenth of predicted probability: labels, sum predicted, sum observed.")
    )

    class Meta:
        verbose_name_plural = "scoreboard entries"
        ordering = ["snapshot", "method"]
        constraints = [
            models.UniqueConstraint(fields=["snapshot", "method"], name="scored_once"),
            models.CheckConstraint(
                condition=Q(correct__lte=models.F("decided"), decided__lte=models.F("labels")), name="scored_counts"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.method}: {self.correct} of {self.decided}"
