"""The form that shows how each column of an uploaded file will be used, and lets the user change it."""

from collections import Counter
from collections.abc import Collection
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.db.models import TextChoices
from django.utils.translation import gettext as _

from annotation.importing.columns import ColumnMap, TableSample
from annotation.importing.problems import format_count

EXAMPLES = 3
MAX_STUDIES = 100  # a column with more distinct values does not name studies
SPLIT = "split"
CHOSEN = "="  # prefix for study names in the form, so that a study may have any name


class ColumnForm(forms.Form):
    """One select per column, and one for the study if a column contains study names."""

    def __init__(
        self,
        sample: TableSample,
        columns: ColumnMap,
        uses: type[TextChoices],
        repeatable: Collection[str],
        studies: Counter[str],
        can_split: bool,
        data: Any = None,
    ) -> None:
        super().__init__(data)
        self.sample, self.guessed, self.repeatable, self.labels = sample, columns, repeatable, dict(uses.choices)
        for index, (name, use) in enumerate(zip(columns.header, columns.uses, strict=True)):
            field = forms.ChoiceField(label=name, choices=uses.choices, initial=use)
            self.fields[f"use_{index}"] = field
        if studies:
            self.fields["study"] = _study_field(studies, columns, can_split)

    @property
    def rows(self) -> list[tuple[Any, list[str]]]:
        """Each column's field with sample cells."""
        names = [f"use_{index}" for index in range(len(self.guessed.header))]
        return [
            (self[name], list(dict.fromkeys(self.sample.cells(index)))[:EXAMPLES]) for index, name in enumerate(names)
        ]

    def clean(self) -> None:
        """Reject two columns with the same use, where a file can have only one."""
        counts = Counter(self._uses())
        twice = [use for use, count in counts.items() if count > 1 and use not in self.repeatable]
        if twice:
            names = ", ".join(str(self.labels[use]) for use in twice)
            raise ValidationError(_("Only one column can be used as: %(names)s.") % {"names": names})

    def _uses(self) -> list[str]:
        cleaned = self.cleaned_data
        return [cleaned[name] for name in cleaned if name.startswith("use_")]

    def columns(self) -> ColumnMap:
        study = self.cleaned_data.get("study", "")
        chosen = study.removeprefix(CHOSEN) if study.startswith(CHOSEN) else None
        header, header_line = self.guessed.header, self.guessed.header_line
        return ColumnMap(header, self._uses(), header_line, study=chosen, split=study == SPLIT)


def _study_field(studies: Counter[str], columns: ColumnMap, can_split: bool) -> forms.ChoiceField:
    choices = [("", _("Choose …"))]
    choices += [(f"{CHOSEN}{study}", f"{study} ({format_count(n)})") for study, n in studies.most_common(MAX_STUDIES)]
    if can_split:
        choices.append((SPLIT, _("Import each study into a copy of this study")))
    initial = SPLIT if columns.split else "" if columns.study is None else f"{CHOSEN}{columns.study}"
    return forms.ChoiceField(label=_("Rows to import"), choices=choices, initial=initial, required=False)
