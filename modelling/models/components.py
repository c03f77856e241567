"""Components keep their number from version to version, and the name that a researcher gave them."""

from django.db import models
from django.db.models import Q

from modelling.models.snapshots import ModelSnapshot


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
