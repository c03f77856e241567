"""The model settings form."""

from collections.abc import Iterator
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.formats import number_format
from django.utils.translation import gettext as _

from annotation.forms.projects import FieldGroup, describe_range
from annotation.models import Item, Project
from modelling.engines import PAPER_SVI
from modelling.features.sentences import INSTALL, has_sentence_vectors
from modelling.training.settings import (
    CHOICES,
    DEFAULTS,
    ENGINE_LABELS,
    HELP,
    KERNEL_LABELS,
    LABELS,
    LIMITS,
    METHOD_LABELS,
    NUMERIC,
    SENTENCES,
    SWITCHES,
    ModelSettings,
    format_setting,
    get_valid_settings,
)

MAX_UPDATE_BATCH = 100_000
RANGE_ERRORS = ["required", "invalid", "min_value", "max_value"]


class ModelSettingsForm(forms.Form):
    """Validates settings; a service saves its `changes`, so that every change is in the audit log."""

    def __init__(self, project: Project, data: Any = None) -> None:
        initial = {**get_valid_settings(project).as_dict(), "update_batch": project.update_batch}
        super().__init__(data, initial=initial)
        self.project = project
        for name in LABELS:
            self.fields[name] = _build_field(name)
        self.fields["update_batch"] = _update_batch_field()

    def groups(self) -> Iterator[FieldGroup]:
        """The fields, grouped as on the page."""
        groups = [
            (_("Model"), ["engine", "n_components", "kernel"]),
            (_("Workers"), ["traits", "reliability"]),
            (_("Updates"), ["update_batch", "refit_growth", "seed"]),
            (_("Comparison"), ["scoreboard_methods"]),
        ]
        for legend, names in groups:
            yield FieldGroup(legend, [self[name] for name in names])

    def clean_kernel(self) -> str:
        kernel = str(self.cleaned_data["kernel"])
        if kernel == NUMERIC and not have_numeric_features(self.project):
            message = _(
                "Not every active item has imported features. Import feature:… columns or choose another similarity."
            )
            raise ValidationError(message)
        if kernel == SENTENCES and not has_sentence_vectors():
            raise ValidationError(
                _("The package for this similarity is not installed on the server: %(command)s. Ask its administrator.")
                % {"command": INSTALL}
            )
        return kernel

    def clean(self) -> dict[str, Any]:
        values = self.cleaned_data
        if values.get("engine") == PAPER_SVI and values.get("reliability"):
            message = _(
                "The published algorithm does not weight workers. Turn this off or choose the engine crowdGPPL."
            )
            self.add_error("reliability", message)
        return values

    @property
    def changes(self) -> dict[str, Any]:
        """For `change_project`: the settings that differ from the defaults, and the update batch."""
        values = dict(self.cleaned_data)
        batch = values.pop("update_batch")
        return {"model_settings": ModelSettings.from_dict(values).non_defaults(), "update_batch": batch}


def have_numeric_features(project: Project) -> bool:
    """Whether all active items share a numeric column."""
    rows = Item.objects.filter(project=project, active=True).values_list("features", flat=True)
    columns = [set(features) for features in rows]
    return bool(columns) and bool(set.intersection(*columns))


def _build_field(name: str) -> forms.Field:
    default = getattr(DEFAULTS, name)
    if name in CHOICES:
        labels = ENGINE_LABELS if name == "engine" else KERNEL_LABELS
        choices = [(value, _mark_default(label) if value == default else label) for value, label in labels.items()]
        return forms.ChoiceField(label=LABELS[name], help_text=HELP[name], choices=choices)
    if name == "scoreboard_methods":
        several = forms.SelectMultiple(attrs={"size": len(METHOD_LABELS)})
        return forms.MultipleChoiceField(
            label=LABELS[name], help_text=HELP[name], choices=METHOD_LABELS.items(), widget=several, required=False
        )
    if name in SWITCHES:
        help_text = f"{HELP[name]} {_format_default(name, default)}"
        return forms.BooleanField(label=LABELS[name], help_text=help_text, required=False)
    return _number_field(name, default)


def _mark_default(label: Any) -> str:
    return _("%(label)s (default)") % {"label": label}


def _number_field(name: str, default: float | None) -> forms.Field:
    """A number field whose help text has the range and default, with one message for every range error."""
    low, high = LIMITS[name]
    whole = isinstance(default, int)
    message = describe_range(int(low), int(high)) if whole else _number_range(low, high)
    kind: Any = forms.IntegerField if whole else forms.FloatField
    return kind(
        label=LABELS[name],
        required=default is not None,
        help_text=f"{HELP[name]} {message} {_format_default(name, default)}",
        min_value=low,
        max_value=high,
        error_messages=dict.fromkeys(RANGE_ERRORS, message),
        widget=forms.NumberInput(attrs={} if whole else {"step": "any"}),
    )


def _number_range(low: float, high: float) -> str:
    return _("Choose a number from %(low)s to %(high)s.") % {"low": number_format(low), "high": number_format(high)}


def _format_default(name: str, default: float | None) -> str:
    return _("Default: %(value)s.") % {"value": format_setting(name, default)}


def _update_batch_field() -> forms.Field:
    field: Any = Project._meta.get_field("update_batch")
    message = describe_range(1, MAX_UPDATE_BATCH)
    return forms.IntegerField(
        label=field.verbose_name,
        min_value=1,
        max_value=MAX_UPDATE_BATCH,
        help_text=f"{field.help_text} {_format_default('update_batch', field.default)}",
        error_messages=dict.fromkeys(RANGE_ERRORS, message),
    )
