"""What the model leaves behind: who is fitting, immutable snapshots, and the scores that pages show."""

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _


class UpdateState(models.Model):
    """One row per project: up to which event the model has learned, who is at work now, and which snapshot is current.

    What is wanted is not stored: it is the project's last sequence and inputs_revision.
    """

    class Condition(models.TextChoices):
        WAITING = "waiting", _("waiting for judgements")
        OK = "ok", _("up to date or catching up")
        DEGRADED = "degraded", _("the last good version is shown")

    project = models.OneToOneField("annotation.Project", on_delete=models.CASCADE, related_name="update_state")
    done_sequence = models.PositiveBigIntegerField(default=0)
    done_inputs_revision = models.PositiveBigIntegerField(default=0)
    current = models.ForeignKey("ModelSnapshot", null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    pinned = models.ForeignKey(
        "ModelSnapshot",
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        related_name="+",
        help_text=_("The version that pages show while the model goes on learning; empty: the current one."),
    )
    owner = models.CharField(max_length=40, blank=True)
    lease_until = models.DateTimeField(null=True, blank=True)
    attempts = models.PositiveIntegerField(default=0)
    not_before = models.DateTimeField(null=True, blank=True)
    condition = models.CharField(max_length=10, choices=Condition.choices, default=Condition.WAITING)
    words = models.TextField(blank=True, help_text=_("Why it waits or is degraded, in plain words; empty when ok."))
    progress = models.JSONField(
        default=dict, blank=True, help_text=_("Of the fit that runs now: what, share, iteration, change; else empty.")
    )

    def __str__(self) -> str:
        return f"{self.project_id}: learned up to {self.done_sequence}"


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


class SettingsSearch(models.Model):
    """A request to choose the model's settings by leaving groups of items out, and what came of it."""

    class State(models.TextChoices):
        WAITING = "waiting", _("waiting for the updater")
        RUNNING = "running", _("running")
        DONE = "done", _("done")
        FAILED = "failed", _("could not be done")

    project = models.ForeignKey("annotation.Project", on_delete=models.CASCADE, related_name="settings_searches")
    asked_by = models.ForeignKey("annotation.User", null=True, on_delete=models.SET_NULL, related_name="+")
    asked_at = models.DateTimeField(auto_now_add=True)
    state = models.CharField(max_length=10, choices=State.choices, default=State.WAITING)
    owner = models.CharField(max_length=40, blank=True)
    lease_until = models.DateTimeField(null=True, blank=True)
    progress = models.JSONField(default=dict, blank=True)
    table = models.JSONField(default=list, blank=True, help_text=_("Every candidate with its losses, best first."))
    winner = models.JSONField(default=dict, blank=True)
    words = models.TextField(blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name_plural = "settings searches"
        ordering = ["-asked_at"]
        constraints = [
            models.UniqueConstraint(
                fields=["project"], condition=Q(state__in=["waiting", "running"]), name="one_search_at_a_time"
            )
        ]

    def __str__(self) -> str:
        return f"{self.project_id}: {self.state}"


class UpdaterBeat(models.Model):
    """When an updater was last seen. One row a machine; `/readyz` asks for a recent one."""

    name = models.CharField(max_length=80, primary_key=True)
    seen_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.name


class ComponentNumbers(models.Model):
    """Which number and sign each component of a version has on pages: written once, followed by the next version.

    `landmarks` are the ids of a few items, `profile` the estimator's components at them: enough to find the same
    components again in another version when the arrays of this one are gone.
    """

    snapshot = models.OneToOneField(ModelSnapshot, on_delete=models.CASCADE, related_name="component_numbers")
    numbers = models.JSONField()
    signs = models.JSONField()
    energies = models.JSONField()
    landmarks = models.JSONField()
    profile = models.JSONField()

    class Meta:
        verbose_name_plural = "component numbers"

    def __str__(self) -> str:
        return f"{self.snapshot_id}: {self.numbers}"


class ComponentName(models.Model):
    """What a researcher calls a component. It stays with the number, and the number with the component."""

    LONGEST = 60

    project = models.ForeignKey("annotation.Project", on_delete=models.CASCADE, related_name="component_names")
    number = models.PositiveIntegerField()
    name = models.CharField(max_length=LONGEST)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["project", "number"], name="component_named_once"),
            models.CheckConstraint(condition=~Q(name=""), name="component_name_not_empty"),
        ]

    def __str__(self) -> str:
        return f"{self.number}: {self.name}"
