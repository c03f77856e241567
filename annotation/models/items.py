"""Items. A corrected text is a new row, so that a judgement always references the text that was read."""

from typing import ClassVar

from django.db import models
from django.db.models import Q
from django.urls import reverse
from django.utils.translation import gettext_lazy as _

MAX_TEXT = 20_000
MOST_MODEL_ITEMS = 5000  # the model cannot fit more, so the import warns of it


class ItemQuerySet(models.QuerySet["Item"]):
    def active(self) -> "ItemQuerySet":
        return self.filter(active=True)

    def revisions(self, key: str) -> "ItemQuerySet":
        """Every revision of one item, newest first."""
        return self.filter(key=key).order_by("-revision")


class Item(models.Model):
    project = models.ForeignKey("annotation.Project", on_delete=models.CASCADE, related_name="items")
    key = models.CharField(_("key"), max_length=200, help_text=_("The researcher's own id."))
    revision = models.PositiveIntegerField(default=1)
    text = models.TextField(_("text"), max_length=MAX_TEXT)
    group = models.CharField(_("group"), max_length=200, blank=True, help_text=_("For example topic and stance."))
    metadata = models.JSONField(default=dict, blank=True)
    features = models.JSONField(default=dict, blank=True, help_text=_("Numeric columns of the import file."))
    active = models.BooleanField(_("shown to workers"), default=True)
    load = models.PositiveIntegerField(
        default=0, help_text=_("How often it was issued, or judged without being issued.")
    )
    created_at = models.DateTimeField(auto_now_add=True)

    objects: ClassVar[models.Manager["Item"]] = ItemQuerySet.as_manager()

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["project", "key", "revision"], name="item_revision_once"),
            models.UniqueConstraint(
                fields=["project", "key"], condition=Q(active=True), name="item_one_active_revision"
            ),
            models.CheckConstraint(condition=Q(revision__gte=1), name="item_revision_from_one"),
            models.CheckConstraint(condition=~Q(text=""), name="item_text_not_empty"),
            models.CheckConstraint(condition=~Q(key=""), name="item_key_not_empty"),
        ]
        indexes = [
            models.Index(fields=["project", "active", "group"], name="item_by_group"),
            models.Index(fields=["project", "active", "load"], name="item_by_load"),
        ]

    def __str__(self) -> str:
        return self.key

    def get_absolute_url(self) -> str:
        return reverse("annotation:item", args=[self.project.slug, self.pk])
