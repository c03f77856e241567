"""Gold pairs: texts of which one is known to be better, and the rule for workers who do not choose it."""

from collections.abc import Iterator
from typing import Any

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from annotation.forms.preparation import MAX_TEXT
from annotation.forms.projects import FieldGroup
from annotation.models import Preparation, Project

MAX_PAIRS = 10
EMPTY_ROWS = 2
FEWEST_WRONG = 2  # one wrong answer may be a slip; platforms require at least two failures too
RULE = ("gold_checks", "gold_limit", "gold_consequence")


class GoldForm(forms.Form):
    """The stored pairs and a few empty ones; `cleaned_data` goes to `change_gold`."""

    use_required_attribute = False
    gold_checks = forms.IntegerField(
        label=gettext_lazy("gold pairs per worker"),
        min_value=0,
        max_value=MAX_PAIRS,
        required=False,
        help_text=gettext_lazy("Each worker gets this many of the pairs below, spread over the task. Empty: all."),
    )
    gold_limit = forms.IntegerField(
        label=gettext_lazy("wrong answers from which the rule applies"),
        min_value=1,
        max_value=MAX_PAIRS,
        required=False,
        help_text=gettext_lazy("An answer is wrong unless it is the better text."),
    )
    gold_consequence = forms.ChoiceField(
        label=gettext_lazy("consequence"),
        choices=Preparation.Consequence.choices,
        help_text=gettext_lazy("Neither rejects anyone: the answer to a pair is an opinion."),
    )

    def __init__(self, project: Project, preparation: Preparation, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.initial = {
            "gold_checks": project.gold_checks or None,
            "gold_limit": preparation.gold_limit or None,
            "gold_consequence": preparation.gold_consequence,
        }
        self.n_rows = min(len(preparation.gold) + EMPTY_ROWS, MAX_PAIRS)
        for number in range(self.n_rows):
            pair = dict(enumerate(preparation.gold)).get(number, {})
            for name, label in (("better", gettext_lazy("better text")), ("worse", gettext_lazy("worse text"))):
                self.fields[f"{name}_{number}"] = forms.CharField(
                    label=label,
                    initial=pair.get(name, ""),
                    required=False,
                    max_length=MAX_TEXT,
                    widget=forms.Textarea(attrs={"rows": 2}),
                )

    def groups(self) -> Iterator[FieldGroup]:
        yield FieldGroup(_("Rule"), [self[name] for name in RULE])
        for number in range(self.n_rows):
            fields = [self[f"{name}_{number}"] for name in ("better", "worse")]
            yield FieldGroup(_("Gold pair %(number)d") % {"number": number + 1}, fields)

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        gold = [*filter(None, (self._clean_pair(cleaned, number) for number in range(self.n_rows)))]
        per_worker = cleaned.get("gold_checks") or len(gold)
        limit = (cleaned.get("gold_limit") or 0) if gold else 0
        consequence = cleaned.get("gold_consequence", "")
        if per_worker > len(gold):
            self.add_error("gold_checks", _("There are %(n)d gold pairs.") % {"n": len(gold)})
        elif gold and not 1 <= limit <= per_worker:
            self.add_error("gold_limit", _("Choose a number from 1 to the gold pairs per worker."))
        elif gold and consequence == Preparation.Consequence.FAILED_CHECKS and limit < FEWEST_WRONG:
            self.add_error("gold_limit", _("At least two answers must be wrong before a participation ends so."))
        rule = {"gold_checks": per_worker if gold else 0, "gold_limit": limit, "gold_consequence": consequence}
        return {"gold": gold, **rule}

    def _clean_pair(self, cleaned: dict[str, Any], number: int) -> dict[str, str] | None:
        pair = {name: cleaned.get(f"{name}_{number}", "").replace("\r\n", "\n") for name in ("better", "worse")}
        if not any(pair.values()):
            return None
        for name, text in pair.items():
            if not text:
                self.add_error(f"{name}_{number}", _("A gold pair needs two texts."))
        return pair
