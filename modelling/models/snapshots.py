"""Model versions with their scores. Immutable."""

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from modelling.engines import PAPER_SVI

FIRST_WITH_95_PERCENT = [0, 7, 0]  # the first code version with 95% rank intervals


class ModelSnapshot(models.Model):
    """One version of the model, with everything needed to explain and repeat it."""

    class Kind(models.TextChoices):
        REFIT = "refit", _("fitted from scratch")
        STEP = "step", _("updated with new judgements")

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
        max_length=64, blank=True, help_text=_("The checksum of the arrays of which only the changes are stored.")
    )
    refined = models.BooleanField(
        default=False, help_text=_("Whether an earlier release refined its scores by sampling.")
    )
    seconds = models.FloatField()
    pruned_at = models.DateTimeField(
        null=True, blank=True, help_text=_("When the arrays were deleted; the scores stay.")
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        verbose_name, verbose_name_plural = "version of a model", "versions of models"
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

    @property
    def has_old_rank_intervals(self) -> bool:
        """Whether the rank intervals are 90% intervals, as they were before code version 0.7.0."""
        numbers = [int(part) if part.isdigit() else 0 for part in self.code_version.split(".")]
        return numbers < FIRST_WITH_95_PERCENT

    @property
    def as_published(self) -> bool:
        """Whether the paper's own algorithm fitted this version."""
        return bool(self.settings.get("engine") == PAPER_SVI)

    @property
    def hyperparameters(self) -> dict[str, float]:
        """The scales that the model learned; empty in versions of earlier releases."""
        return self.diagnostics.get("hyperparameters") or {}


class SnapshotArrays(models.Model):
    """The arrays of a snapshot (.npz) in the database, where all machines can read them."""

    project = models.ForeignKey("annotation.Project", on_delete=models.CASCADE)
    checksum = models.CharField(max_length=64)
    content = models.BinaryField()

    class Meta:
        verbose_name, verbose_name_plural = "model data of a version", "model data of versions"
        constraints = [models.UniqueConstraint(fields=["project", "checksum"], name="arrays_once")]

    def __str__(self) -> str:
        return self.checksum[:12]


class WorkerPosterior(models.Model):
    """The labels of one worker with their sites (`crowdgppl/labels.py`), as of one version.

    Append-only: a version that did not visit the worker uses the row with the largest number not above its own. Rows
    with a number that no snapshot has yet belong to an update that has not been published.
    """

    project = models.ForeignKey("annotation.Project", on_delete=models.CASCADE, db_index=False, related_name="+")
    worker = models.ForeignKey("annotation.Worker", on_delete=models.CASCADE, db_index=False, related_name="+")
    number = models.PositiveIntegerField(help_text=_("The number of the version that wrote the row."))
    content = models.BinaryField()

    class Meta:
        verbose_name, verbose_name_plural = "model data of a worker", "model data of workers"
        constraints = [models.UniqueConstraint(fields=["worker", "number"], name="worker_posterior_once")]
        indexes = [models.Index(fields=["project", "number"], name="worker_posterior_by_number")]

    def __str__(self) -> str:
        return f"{self.worker_id}: {self.number}"


class ConsensusScore(models.Model):
    """The consensus score of one item in one snapshot, with its uncertainty."""

    snapshot = models.ForeignKey(ModelSnapshot, on_delete=models.CASCADE, related_name="scores")
    item = models.ForeignKey("annotation.Item", on_delete=models.PROTECT, related_name="+")
    mean = models.FloatField()
    sd = models.FloatField()
    rank = models.PositiveIntegerField()
    rank_low = models.PositiveIntegerField(help_text=_("Best rank of the 95 % interval."))
    rank_high = models.PositiveIntegerField(help_text=_("Worst rank of the 95 % interval."))
    top_probability = models.FloatField(help_text=_("Probability of being among the ten best."))
    polarisation = models.FloatField(help_text=_("Standard deviation of the workers' personal scores."))
    judgements = models.PositiveIntegerField()

    class Meta:
        verbose_name, verbose_name_plural = "score of an item", "scores of items"
        ordering = ["rank"]
        constraints = [
            models.UniqueConstraint(fields=["snapshot", "item"], name="score_once"),
            models.CheckConstraint(condition=Q(sd__gte=0), name="score_sd_not_negative"),
            models.CheckConstraint(condition=Q(rank__gte=1), name="score_rank_from_one"),
        ]

    def __str__(self) -> str:
        return f"{self.rank}. {self.item_id}"


class ScoreboardEntry(models.Model):
    """How well one method predicted the new judgements of a version: sums, so that entries can be added up."""

    class Method(models.TextChoices):
        """The methods of every study; a study can add others, by their names in the catalogue of methods."""

        PERSONAL = "personal", _("crowdGPPL, each worker's own preferences")
        CONSENSUS = "consensus", _("crowdGPPL, the consensus")
        GPPL = "gppl", _("GPPL, the same preferences for everyone")
        BRADLEY_TERRY = "bradley_terry", _("Bradley-Terry, without texts")

    snapshot = models.ForeignKey(ModelSnapshot, on_delete=models.CASCADE, related_name="scoreboard")
    method = models.CharField(max_length=30)
    labels = models.PositiveIntegerField()
    decided = models.PositiveIntegerField(help_text=_("Labels that are not ties; only these can be correct."))
    correct = models.PositiveIntegerField()
    log_loss = models.FloatField()
    brier = models.FloatField()
    calibration = models.JSONField(
        default=list, help_text=_("For each tenth of predicted probability: labels, sum predicted, sum observed.")
    )

    class Meta:
        verbose_name, verbose_name_plural = "scoreboard entry", "scoreboard entries"
        ordering = ["snapshot", "method"]
        constraints = [
            models.UniqueConstraint(fields=["snapshot", "method"], name="scored_once"),
            models.CheckConstraint(
                condition=Q(correct__lte=models.F("decided"), decided__lte=models.F("labels")), name="scored_counts"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.method}: {self.correct} of {self.decided}"
