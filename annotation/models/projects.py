"""Projects: texts, rules and state of a study, and the head of its event log."""

import secrets
from typing import ClassVar

from django.contrib.auth.models import AnonymousUser
from django.core.validators import MaxValueValidator, MinValueValidator, RegexValidator
from django.db import models
from django.db.models import Q
from django.urls import reverse
from django.utils.translation import gettext_lazy as _

from annotation.models.accounts import Membership, User

MAX_REDUNDANCY = 1000


class ProjectQuerySet(models.QuerySet["Project"]):
    def visible_to(self, user: User | AnonymousUser) -> "ProjectQuerySet":
        """The projects that this user is a member of; all projects for superusers."""
        if not user.is_authenticated:
            return self.none()
        existing = self.filter(head__isnull=False)  # a deleted project has no head
        return existing if user.is_superuser else existing.filter(membership__user=user)

    def not_archived(self) -> "ProjectQuerySet":
        return self.filter(archived_at=None)


def import_salt() -> str:
    """A salt for imported judgements' UUIDs; without it, a worker's name could be confirmed by guessing."""
    return secrets.token_hex(16)


class Project(models.Model):
    class State(models.TextChoices):
        DRAFT = "draft", _("draft")
        OPEN = "open", _("open")
        PAUSED = "paused", _("paused")
        CLOSED = "closed", _("closed")

    class Suggestions(models.TextChoices):
        NONE = "none", _("none, or pairs set through the API")
        ORDER = "order", _("for the consensus order of all items")
        TOP = "top", _("for the top items")
        PERSONAL = "personal", _("for each worker's own preferences")
        COVERAGE = "coverage", _("for new and rarely judged items")

    class Pairs(models.TextChoices):
        WITHIN_GROUP = "group", _("two items of the same group")
        ANY = "any", _("any two items")

    slug = models.SlugField(_("short name in links"), max_length=60, unique=True)
    title = models.CharField(_("title"), max_length=200)
    question = models.CharField(_("question"), max_length=300, default="Which argument is more convincing?")
    instructions = models.TextField(_("instructions"), blank=True, max_length=10_000)
    consent = models.TextField(_("consent text"), blank=True, max_length=10_000)
    thanks = models.TextField(_("thank-you text"), blank=True, max_length=10_000)
    plain_texts = models.JSONField(
        default=list,
        blank=True,
        editable=False,
        help_text=_("Texts from before Markdown was available that have not been changed since."),
    )
    example_first = models.TextField(_("first text of the example"), blank=True, max_length=10_000)
    example_second = models.TextField(_("second text of the example"), blank=True, max_length=10_000)
    example_explanation = models.TextField(_("explanation of the example"), blank=True, max_length=10_000)
    state = models.CharField(_("state"), max_length=10, choices=State.choices, default=State.DRAFT)

    language = models.CharField(
        _("language of the texts"),
        max_length=12,
        default="en",
        validators=[RegexValidator(r"^[a-z]{2,3}(-[A-Za-z0-9]{2,8})?\Z", _("A code such as en, de or pt-br."))],
        help_text=_("A code such as en, de or ar. The pages for workers use this language if it is translated."),
    )
    direction = models.CharField(
        _("text direction"),
        max_length=3,
        choices=[("ltr", _("left to right")), ("rtl", _("right to left"))],
        default="ltr",
    )

    ties_allowed = models.BooleanField(_("workers may answer “equally good”"), default=True)
    reason_asked = models.BooleanField(_("workers may write a reason"), default=False)
    judgements_per_worker = models.PositiveIntegerField(
        _("judgements per worker"),
        default=40,
        validators=[MinValueValidator(1), MaxValueValidator(5000)],
        help_text=_("From 1 to 5,000. A worker is finished after this many."),
    )
    redundancy = models.PositiveIntegerField(
        _("workers per pair"),
        default=3,
        validators=[MinValueValidator(1), MaxValueValidator(MAX_REDUNDANCY)],
        help_text=_(
            "From 1 to 1,000. A pair judged by this many workers is not shown to others. Each arm counts its own."
        ),
    )
    pairs = models.CharField(
        _("which items are paired"), max_length=10, choices=Pairs.choices, default=Pairs.WITHIN_GROUP
    )
    group_shown = models.BooleanField(_("workers see the group of a pair"), default=False)
    own_view_shown = models.BooleanField(
        _("workers see how their answers compare"),
        default=True,
        help_text=_("After finishing, if enough other workers have judged."),
    )
    repeat_share = models.PositiveIntegerField(
        _("planned repeats (%)"),
        default=0,
        validators=[MaxValueValidator(50)],
        help_text=_(
            "From 0 to 50. This share of pairs is shown again with the sides swapped, to measure self-consistency."
        ),
    )
    suggestions = models.CharField(
        _("pairs that the model suggests"),
        max_length=10,
        choices=Suggestions.choices,
        default=Suggestions.ORDER,
        help_text=_(
            "After each update the model suggests the pairs that are expected to be most informative for this purpose."
        ),
    )
    random_share = models.PositiveIntegerField(
        _("random pairs (%)"),
        default=20,
        validators=[MaxValueValidator(100)],
        help_text=_(
            "From 0 to 100. The other pairs follow the model's suggestions, if there are any. Keep a share of random "
            "pairs: reliability is computed from them."
        ),
    )
    top_k = models.PositiveIntegerField(
        _("number of top items"),
        default=5,
        validators=[MinValueValidator(1), MaxValueValidator(1000)],
        help_text=_("From 1 to 1,000. Suggestions for the top items and the stop rule use this number."),
    )
    stop_target = models.PositiveSmallIntegerField(
        _("certainty at which to stop (%)"),
        default=90,
        validators=[MinValueValidator(50), MaxValueValidator(99)],
        help_text=_("From 50 to 99. The probability that the top items are the right ones."),
    )
    stop_pauses = models.BooleanField(
        _("pause the study when it is certain enough"),
        default=False,
        help_text=_("It pauses when two versions in a row reach this certainty. You can open it again at any time."),
    )
    attention_checks = models.PositiveSmallIntegerField(
        _("attention checks per worker"),
        default=0,
        validators=[MaxValueValidator(5)],
        help_text=_(
            "From 0 to 5. Between two pairs workers are asked to choose First or Second. Those who fail two or more "
            "end with the outcome “failed checks”; their answers are kept."
        ),
    )
    gold_checks = models.PositiveSmallIntegerField(
        _("gold pairs per worker"), default=0, validators=[MaxValueValidator(10)], editable=False
    )
    lease_minutes = models.PositiveIntegerField(
        _("minutes a pair is reserved for a worker"),
        default=30,
        validators=[MinValueValidator(1), MaxValueValidator(1440)],
        help_text=_("From 1 to 1,440. A later answer is still accepted."),
    )
    pairs_ahead = models.PositiveIntegerField(
        _("pairs that a worker receives in advance"),
        default=5,
        validators=[MinValueValidator(1), MaxValueValidator(20)],
        help_text=_(
            "From 1 to 20. A worker can judge this many pairs offline. More than 5 are sent only while the study has "
            "plenty of free pairs."
        ),
    )
    update_batch = models.PositiveIntegerField(
        _("new judgements that start a model update"),
        default=10,
        validators=[MinValueValidator(1), MaxValueValidator(100_000)],
        help_text=_("From 1 to 100,000. Fewer judgements start an update after a minute."),
    )
    answers_wanted = models.PositiveIntegerField(
        _("target number of answers"),
        default=0,
        validators=[MaxValueValidator(10_000_000)],
        help_text=_(
            "From 0 to 10,000,000. The study is complete at this number; webhooks are notified. "
            "0: complete when every pair was judged by enough workers."
        ),
    )
    questionnaire = models.JSONField(
        _("questions for workers"),
        default=list,
        blank=True,
        help_text=_('A list such as [{"name": "age", "label": "Your age", "choices": ["18-29", "30-49", "50+"]}].'),
    )
    model_settings = models.JSONField(_("model settings"), default=dict, blank=True)
    listed = models.BooleanField(
        _("listed on the home page"),
        default=False,
        help_text=_("Visitors of this server see the study there while it is open. Otherwise people need the link."),
    )
    ranking_public = models.BooleanField(
        _("public ranking"),
        default=False,
        help_text=_("Anyone with the link can read the consensus ranking; nothing about workers is shown."),
    )
    retention_days = models.PositiveIntegerField(
        _("days until workers' data is erased"),
        default=0,
        validators=[MaxValueValidator(3650)],
        help_text=_(
            "From 0 to 3,650; 0 means never. This many days after the last answer, platform IDs, answers to the "
            "questionnaire and written reasons are erased. Judgements stay under random codes."
        ),
    )
    archived_at = models.DateTimeField(null=True, blank=True, editable=False)
    import_salt = models.CharField(max_length=32, default=import_salt, editable=False)
    simulated = models.BooleanField(_("contains simulated data"), default=False)
    created_at = models.DateTimeField(auto_now_add=True)

    objects: ClassVar[models.Manager["Project"]] = ProjectQuerySet.as_manager()

    class Meta:
        verbose_name, verbose_name_plural = "study", "studies"
        ordering = ["title"]
        constraints = [
            models.CheckConstraint(condition=Q(state__in=["draft", "open", "paused", "closed"]), name="project_state"),
            models.CheckConstraint(condition=Q(pairs__in=["group", "any"]), name="project_pairs"),
            models.CheckConstraint(condition=Q(redundancy__range=(1, MAX_REDUNDANCY)), name="project_redundancy"),
            models.CheckConstraint(
                condition=Q(judgements_per_worker__range=(1, 5000)), name="project_judgements_per_worker"
            ),
            models.CheckConstraint(condition=Q(lease_minutes__range=(1, 1440)), name="project_lease_minutes"),
            models.CheckConstraint(condition=Q(pairs_ahead__range=(1, 20)), name="project_pairs_ahead"),
            models.CheckConstraint(condition=Q(update_batch__gte=1), name="project_update_batch"),
            models.CheckConstraint(condition=Q(repeat_share__lte=50), name="project_repeat_share"),
            models.CheckConstraint(condition=Q(random_share__lte=100), name="project_random_share"),
            models.CheckConstraint(
                condition=Q(suggestions__in=["none", "order", "top", "personal", "coverage"]),
                name="project_suggestions",
            ),
            models.CheckConstraint(condition=Q(top_k__range=(1, 1000)), name="project_top_k"),
            models.CheckConstraint(condition=Q(stop_target__range=(50, 99)), name="project_stop_target"),
            models.CheckConstraint(condition=Q(direction__in=["ltr", "rtl"]), name="project_direction"),
        ]

    def __str__(self) -> str:
        return self.title

    def get_absolute_url(self) -> str:
        return reverse("annotation:project", args=[self.slug])

    def get_judging_url(self) -> str:
        return reverse("annotation:judge", args=[self.slug])

    def role_of(self, user: User | AnonymousUser) -> str | None:
        """The user's role: owner, analyst or viewer; None for non-members. Superusers are owners."""
        if not user.is_authenticated:
            return None
        if user.is_superuser:
            return Membership.Role.OWNER
        return Membership.objects.filter(project=self, user=user).values_list("role", flat=True).first()


class EventHead(models.Model):
    """The end of a project's event log. A separate row, so that saving a stale project cannot move it back."""

    project = models.OneToOneField(Project, on_delete=models.CASCADE, primary_key=True, related_name="head")
    sequence = models.PositiveBigIntegerField(default=0)
    hash = models.CharField(max_length=64, default="")
    inputs_revision = models.PositiveBigIntegerField(
        default=0, help_text=_("Raised when items, model settings or exclusions change or a refit is requested.")
    )

    class Meta:
        verbose_name, verbose_name_plural = "event log", "event logs"

    def __str__(self) -> str:
        return f"{self.project_id}: {self.sequence}"
