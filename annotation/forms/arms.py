"""The form in which owners define a study's arms."""

from collections.abc import Iterator
from typing import Any

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from annotation.forms.projects import FieldGroup, describe_range
from annotation.models import Arm, Item, Project, Worker
from annotation.models.arms import MAX_ARMS, OVERRIDES

FIELDS = ("name", *OVERRIDES)
LISTS = ("groups", "keys")
HELP_TEXTS = {
    "question": gettext_lazy("Leave it empty to use the study's question."),
    "instructions": gettext_lazy(
        "Leave it empty to use the study's instructions. Otherwise workers see these after they agree to take part."
    ),
    "groups": gettext_lazy("One per line. The arm contains the items of these groups. Leave it empty for all items."),
    "keys": gettext_lazy("One per line. The arm also contains these items."),
    "random_share": gettext_lazy("From 0 to 100. Leave it empty to use the study's setting."),
}


class ArmsForm(forms.Form):
    """The stored arms, followed by empty ones. An arm without a name is left out or removed."""

    use_required_attribute = False

    def __init__(self, project: Project, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.project = project
        stored = list(Arm.objects.filter(project=project))
        room = MAX_ARMS - len(stored)
        self.rows: dict[str, Arm] = {str(arm.number): arm for arm in stored}
        self.rows |= {f"new{number}": Arm(project=project) for number in range(min(1 if stored else 2, room))}
        for row, arm in self.rows.items():
            for name in FIELDS:
                self.fields[f"{name}_{row}"] = _field(name, arm)

    def groups(self) -> Iterator[FieldGroup]:
        for number, (row, arm) in enumerate(self.rows.items(), start=1):
            legend = arm.name or _("Arm %(number)d") % {"number": number}
            yield FieldGroup(legend, [self[f"{name}_{row}"] for name in FIELDS])

    def clean(self) -> dict[str, Any]:
        """Put the arms into `cleaned_data["arms"]` as unsaved rows."""
        cleaned = super().clean() or {}
        if self.errors:
            return cleaned
        arms = [self._clean_arm(cleaned, row, arm) for row, arm in self.rows.items() if cleaned[f"name_{row}"]]
        self._check_names(cleaned)
        self._check_removed(cleaned)
        if len(arms) == 1:
            raise forms.ValidationError(_("Define at least two arms, or none."))
        return {"arms": arms}

    def _clean_arm(self, cleaned: dict[str, Any], row: str, arm: Arm) -> Arm:
        values = {name: cleaned[f"{name}_{row}"] for name in FIELDS}
        for name in LISTS:
            values[name] = [*dict.fromkeys(filter(None, map(str.strip, values[name].splitlines())))]
        self._check_items(row, "groups", "group", values["groups"])
        self._check_items(row, "keys", "key", values["keys"])
        values["instructions"] = values["instructions"].replace("\r\n", "\n")
        return Arm(project=self.project, number=arm.number, **values)

    def _check_items(self, row: str, field: str, column: str, wanted: list[str]) -> None:
        items = Item.objects.filter(project=self.project, active=True, **{f"{column}__in": wanted})
        known = set(items.values_list(column, flat=True))
        if unknown := [value for value in wanted if value not in known]:
            message = _("No active item matches: %(values)s.") % {"values": ", ".join(unknown[:5])}
            self.add_error(f"{field}_{row}", message)

    def _check_names(self, cleaned: dict[str, Any]) -> None:
        seen: set[str] = set()
        for row in self.rows:
            name = cleaned[f"name_{row}"].casefold()
            if name and name in seen:
                self.add_error(f"name_{row}", _("Another arm has the same name."))
            seen.add(name)

    def _check_removed(self, cleaned: dict[str, Any]) -> None:
        for row, arm in self.rows.items():
            n_workers = Worker.objects.filter(arm=arm).count() if arm.pk and not cleaned[f"name_{row}"] else 0
            if n_workers:
                message = _("This arm has workers (%(n)d) and cannot be removed.") % {"n": n_workers}
                self.add_error(f"name_{row}", message)


def _field(name: str, arm: Arm) -> forms.Field:
    """The form field for one of the arm's settings."""
    field: Any = Arm._meta.get_field(name).formfield(required=False)  # type: ignore[union-attr]
    value = getattr(arm, name)
    if name in LISTS:
        field = forms.CharField(label=field.label, required=False, max_length=100_000)
        value = "\n".join(value)
    if name in (*LISTS, "instructions"):
        field.widget = forms.Textarea(attrs={"rows": 3})
    if name == "random_share":
        message = describe_range(0, 100)
        field.error_messages |= dict.fromkeys(["invalid", "min_value", "max_value"], message)
    if name == "name":
        field.help_text = f"{field.help_text} {_('Leave it empty to remove the arm.')}" if arm.pk else field.help_text
    field.initial, field.help_text = value, HELP_TEXTS.get(name, field.help_text)
    return field
