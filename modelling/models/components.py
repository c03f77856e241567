"""The numbers and names of components, which stay the same from version to version."""

from django.db import models
from django.db.models import Q

from modelling.models.snapshots import ModelSnapshot


class ComponentNumbers(models.Model):
    """The displayed number and sign of each component of a version.

    `landmarks` are the ids of a few items and `profile` the components' values at them: enough to match the components
    of another version after the arrays of this one have been pruned.
    """

    snapshot = models.OneToOneField(ModelSnapshot, on_delete=models.CASCADE, related_name="component_numbers")
    numbers = models.JSONField()
    signs = models.JSONField()
    energies = models.JSONField()
    landmarks = models.JSONField()
    profile = models.JSONField()

    class Meta:
        verbose_name, verbose_name_plural = "numbers of components", "numbers of components"

    def __str__(self) -> str:
        return f"{self.snapshot_id}: {self.numbers}"


class ComponentName(models.Model):
    """A researcher's name for a component, by its number."""

    MAX_LENGTH = 60

    project = models.ForeignKey("annotation.Project", on_delete=models.CASCADE, related_name="component_names")
    number = models.PositiveIntegerField()
    name = models.CharField(max_length=MAX_LENGTH)

    class Meta:
        verbose_name, verbose_name_plural = "name of a component", "names of components"
        constraints = [
            models.UniqueConstraint(fields=["project", "number"], name="component_named_once"),
            models.CheckConstraint(condition=~Q(name=""), name="component_name_not_empty"),
        ]

    def __str__(self) -> str:
        return f"{self.number}: {self.name}"
