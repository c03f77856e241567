"""The study passport: what was planned before the first answer."""

from django.db import models
from django.utils.translation import gettext_lazy as _


class StudyPassport(models.Model):
    """The rules that the researcher wrote down, and the plan frozen when the study opened, before any answer."""

    project = models.OneToOneField("annotation.Project", on_delete=models.CASCADE, related_name="passport")
    exclusion_rules = models.TextField(
        _("exclusion rules"),
        blank=True,
        max_length=10_000,
        help_text=_("Whose answers you will leave out, and how you decide that."),
    )
    stop_rule = models.TextField(
        _("stop rule"), blank=True, max_length=10_000, help_text=_("When you will stop collecting answers.")
    )
    simulation = models.JSONField(
        _("simulation of the study"),
        default=dict,
        blank=True,
        editable=False,
        help_text=_("The last simulation of the study designer: its assumptions and expected results."),
    )
    content = models.JSONField(default=dict, blank=True, editable=False)
    digest = models.CharField(max_length=64, blank=True, editable=False, help_text=_("SHA-256 of the content."))
    frozen_at = models.DateTimeField(null=True, blank=True, editable=False)

    def __str__(self) -> str:
        return self.digest or "not frozen"
