"""Arms: the conditions of an experiment, and the settings that apply to each worker."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django.core.validators import MaxValueValidator, RegexValidator
from django.db import models
from django.db.models import Q, QuerySet
from django.utils.translation import gettext_lazy as _

from annotation.models.items import Item
from annotation.models.projects import MAX_REDUNDANCY, Project

MAX_ARMS = 20
# Study settings that an arm can override.
OVERRIDES = ("question", "instructions", "groups", "keys", "pairs", "random_share")


class Arm(models.Model):
    """One arm of a study. An empty field means that the study's own setting applies."""

    project = models.ForeignKey("annotation.Project", on_delete=models.CASCADE, related_name="arms")
    number = models.PositiveSmallIntegerField(help_text=_("Never changes: the slots of its pairs depend on it."))
    name = models.CharField(
        _("name"),
        max_length=40,
        validators=[RegexValidator(r"^\w[\w .-]*\Z", _("Use letters, digits, spaces, dots, hyphens and underscores."))],
        help_text=_("Workers do not see it. It is included in every export."),
    )
    question = models.CharField(_("question"), max_length=300, blank=True)
    instructions = models.TextField(_("instructions"), blank=True, max_length=10_000)
    groups = models.JSONField(_("groups of items"), default=list, blank=True)
    keys = models.JSONField(_("keys of items"), default=list, blank=True)
    pairs = models.CharField(
        _("which items are paired"),
        max_length=10,
        blank=True,
        choices=[("", _("as in the study")), *Project.Pairs.choices],
    )
    random_share = models.PositiveIntegerField(
        _("random pairs (%)"), null=True, blank=True, validators=[MaxValueValidator(100)]
    )

    class Meta:
        ordering = ["number"]
        constraints = [
            models.UniqueConstraint(fields=["project", "name"], name="arm_name_once"),
            models.UniqueConstraint(fields=["project", "number"], name="arm_number_once"),
            models.CheckConstraint(condition=Q(number__gte=1), name="arm_number_from_one"),
            models.CheckConstraint(condition=~Q(name=""), name="arm_name_not_empty"),
            models.CheckConstraint(condition=Q(pairs__in=["", "group", "any"]), name="arm_pairs"),
            models.CheckConstraint(condition=Q(random_share=None) | Q(random_share__lte=100), name="arm_random_share"),
        ]

    def __str__(self) -> str:
        return self.name

    def describe(self) -> dict[str, Any]:
        """The arm's name and every setting that differs from the study's."""
        values = {name: getattr(self, name) for name in OVERRIDES}
        return {"name": self.name, **{name: value for name, value in values.items() if value not in ("", [], None)}}


@dataclass(frozen=True)
class Design:
    """The settings that apply to a worker: the study's, unless their arm overrides them."""

    project: Project
    arm: Arm | None = None

    @property
    def question(self) -> str:
        return (self.arm and self.arm.question) or self.project.question

    @property
    def instructions(self) -> str:
        return (self.arm and self.arm.instructions) or self.project.instructions

    @property
    def plain_texts(self) -> list[str]:
        """The texts that are not Markdown."""
        own = {"instructions"} if self.arm and self.arm.instructions else set()
        return [name for name in self.project.plain_texts if name not in own]

    @property
    def pairs(self) -> str:
        return (self.arm and self.arm.pairs) or self.project.pairs

    @property
    def random_share(self) -> int:
        own = self.arm.random_share if self.arm else None
        return self.project.random_share if own is None else own

    @property
    def has_own_texts(self) -> bool:
        """Whether the arm has texts that workers must read after being assigned to it."""
        return bool(self.arm and (self.arm.question or self.arm.instructions))

    @property
    def slots(self) -> range:
        """Each pair's slot numbers for this design. Every arm has its own, so that arms do not compete for a pair."""
        first = 1 + (self.arm.number if self.arm else 0) * MAX_REDUNDANCY
        return range(first, first + self.project.redundancy)

    def contains(self, slot: int | None) -> bool:
        """Whether this slot belongs to the design, even if redundancy was higher when it was taken."""
        return slot is not None and (slot - 1) // MAX_REDUNDANCY == (self.arm.number if self.arm else 0)

    @cached_property
    def items(self) -> "QuerySet[Item]":
        """The active items that workers with this design judge."""
        items = Item.objects.filter(project=self.project, active=True)
        if self.arm and (self.arm.groups or self.arm.keys):
            items = items.filter(Q(group__in=self.arm.groups) | Q(key__in=self.arm.keys))
        return items


def list_designs(project: Project) -> list[Design]:
    """The design of each arm, or the study's only design if it has no arms."""
    return [Design(project, arm) for arm in project.arms.all()] or [Design(project)]


def texts_before_consent(project: Project) -> dict[str, Any]:
    """The texts for people who have no arm yet; empty where an arm may have its own."""
    arms = list(Arm.objects.filter(project=project))
    return {
        "heading": project.title if any(arm.question for arm in arms) else project.question,
        "instructions_later": any(arm.instructions for arm in arms),
    }


def describe_arms(project: Project) -> list[dict[str, Any]]:
    """Describe a study's arms for its passport and audit log."""
    return [arm.describe() for arm in Arm.objects.filter(project=project)]
