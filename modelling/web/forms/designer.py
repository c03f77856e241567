"""The study designer form."""

from collections.abc import Iterator
from decimal import Decimal
from typing import Any, ClassVar

from django import forms
from django.utils.formats import number_format
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from annotation.forms.projects import FieldGroup, describe_range
from annotation.models import Item, Project, Recruitment
from modelling.dashboards.planning.designer import POLICY_LABELS
from modelling.models import StudySimulation
from modelling.planning.designer import (
    MAX_CROWDS,
    MAX_ITEMS,
    MAX_JUDGEMENTS,
    MAX_WORKERS,
    MIN_CROWDS,
    MIN_ITEMS,
    POLICIES,
    StudyPlan,
)
from modelling.planning.simulator import RANDOM

SHARES = ("random_share", "self_agreement", "agreement")  # percentages in the form
UNPAID, PER_JUDGEMENT, PER_HOUR = "none", "judgement", "hour"
PAY_LABELS = {
    UNPAID: gettext_lazy("no pay"),
    PER_JUDGEMENT: gettext_lazy("per judgement"),
    PER_HOUR: gettext_lazy("per hour"),
}
GROUPS = {
    gettext_lazy("Study"): ("n_items", "n_workers", "judgements_each", "redundancy", "policy", "random_share", "top_k"),
    gettext_lazy("Crowd"): ("self_agreement", "agreement", "crowds"),
    gettext_lazy("Pay"): ("pay_kind", "pay", "seconds", "currency"),
}


class RangeField(forms.IntegerField):
    """A whole number from `low` to `high`."""

    def __init__(self, label: Any, low: int, high: int, help_text: Any = "", *, required: bool = True) -> None:
        super().__init__(label=label, min_value=low, max_value=high, help_text=help_text, required=required)
        self.low, self.high = low, high


class DesignerForm(forms.Form):
    """A planned study; initial values come from the last simulation, or else from the project's settings."""

    n_items = RangeField(gettext_lazy("items"), MIN_ITEMS, MAX_ITEMS)
    n_workers = RangeField(gettext_lazy("workers"), 1, MAX_WORKERS)
    judgements_each = RangeField(gettext_lazy("judgements per worker"), 1, MAX_JUDGEMENTS)
    redundancy = RangeField(
        gettext_lazy("workers per pair"), 1, 1000, gettext_lazy("At most this many workers judge the same pair.")
    )
    policy = forms.ChoiceField(label=gettext_lazy("pairs"), choices=[(name, POLICY_LABELS[name]) for name in POLICIES])
    random_share = RangeField(gettext_lazy("random pairs (%)"), 0, 100, gettext_lazy("Only used with suggested pairs."))
    top_k = RangeField(gettext_lazy("number of top items"), 1, MAX_ITEMS)
    self_agreement = RangeField(
        gettext_lazy("a worker repeats an answer (%)"),
        51,
        99,
        gettext_lazy(
            "Noise: how often a worker gives the same answer to the same pair again. The page Reliability shows it for "
            "earlier studies as self-consistency."
        ),
    )
    agreement = RangeField(
        gettext_lazy("two workers agree (%)"),
        51,
        99,
        gettext_lazy(
            "Spread of opinion: how often two workers give the same answer to the same pair. The further below the "
            "number above, the more opinions differ."
        ),
    )
    crowds = RangeField(gettext_lazy("simulated crowds"), MIN_CROWDS, MAX_CROWDS)
    pay_kind = forms.ChoiceField(label=gettext_lazy("pay"), choices=list(PAY_LABELS.items()))
    pay = forms.DecimalField(
        label=gettext_lazy("amount"), required=False, min_value=Decimal(0), max_value=Decimal(1000), decimal_places=5
    )
    seconds = RangeField(
        gettext_lazy("seconds per judgement"), 1, 3600, gettext_lazy("Needed for pay per hour."), required=False
    )
    currency = forms.ChoiceField(
        label=gettext_lazy("currency"),
        choices=[(code, code) for code, _label in Recruitment._meta.get_field("currency").flatchoices],
    )

    BOUNDS: ClassVar[dict[str, int]] = {
        "items": MAX_ITEMS,
        "workers": MAX_WORKERS,
        "judgements": MAX_JUDGEMENTS,
        "crowds": MAX_CROWDS,
    }

    def __init__(self, project: Project, data: Any = None) -> None:
        super().__init__(data, initial=defaults(project) | last_plan(project))
        for field in self.fields.values():
            if isinstance(field, RangeField):
                message = describe_range(field.low, field.high)
                field.error_messages |= dict.fromkeys(["required", "invalid", "min_value", "max_value"], message)
        too_few = _("A study needs at least %(n)d items.") % {"n": MIN_ITEMS}
        self.fields["n_items"].error_messages["min_value"] = too_few

    @property
    def groups(self) -> Iterator[FieldGroup]:
        for legend, names in GROUPS.items():
            yield FieldGroup(str(legend), [self[name] for name in names])

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        if not self.errors:
            self._check_sizes(data)
            self._check_crowd(data)
            self._check_pay(data)
        return data

    def _check_sizes(self, data: dict[str, Any]) -> None:
        pairs = data["n_items"] * (data["n_items"] - 1) // 2
        total, answers = data["n_workers"] * data["judgements_each"], pairs * data["redundancy"]
        numbers = {
            name: number_format(value, force_grouping=True)
            for name, value in {"items": data["n_items"], "pairs": pairs, "total": total, "answers": answers}.items()
        }
        if data["judgements_each"] > pairs:
            message = _("%(items)s items form only %(pairs)s pairs, and a worker judges a pair at most once.")
            self.add_error("judgements_each", message % numbers)
        elif total > answers:
            message = _(
                "That is %(total)s judgements, but %(pairs)s pairs allow only %(answers)s: use more items or more "
                "workers per pair, or fewer workers or judgements."
            )
            self.add_error("n_workers", message % numbers)
        elif total > MAX_JUDGEMENTS:
            numbers["most"] = number_format(MAX_JUDGEMENTS, force_grouping=True)
            self.add_error("n_workers", _("That is %(total)s judgements; at most %(most)s are possible.") % numbers)
        if data["top_k"] >= data["n_items"]:
            self.add_error("top_k", _("Choose fewer top items than there are items."))

    def _check_crowd(self, data: dict[str, Any]) -> None:
        if data["agreement"] > data["self_agreement"]:
            self.add_error("agreement", _("Two workers cannot agree more often than a worker repeats an answer."))

    def _check_pay(self, data: dict[str, Any]) -> None:
        if data["pay_kind"] != UNPAID and data["pay"] is None:
            self.add_error("pay", _("Enter an amount, or choose “no pay”."))
        if data["pay_kind"] == PER_HOUR and data["seconds"] is None:
            self.add_error("seconds", _("Enter how many seconds a judgement takes."))

    @property
    def plan(self) -> StudyPlan:
        """The plan from the cleaned data."""
        data = self.cleaned_data
        names = ("n_items", "n_workers", "judgements_each", "redundancy", "policy", "top_k", "crowds")
        return StudyPlan(**{name: data[name] for name in names}, **{name: data[name] / 100 for name in SHARES})

    @property
    def cost(self) -> dict[str, Any]:
        """The cost of one judgement and its currency; empty if there is no pay."""
        data = self.cleaned_data
        if data["pay_kind"] == UNPAID:
            return {}
        hours = data["seconds"] / 3600 if data["pay_kind"] == PER_HOUR else 1
        return {"per_judgement": round(float(data["pay"]) * hours, 5), "currency": data["currency"]}


def last_plan(project: Project) -> dict[str, Any]:
    """Initial values from the last simulation; empty before the first one."""
    last = StudySimulation.objects.filter(project=project).first()
    if last is None:
        return {}
    plan = StudyPlan.from_dict(last.plan)
    percent = {name: round(100 * getattr(plan, name)) for name in SHARES}
    pay: dict[str, Any] = {"pay_kind": UNPAID}
    if last.pay:
        pay = {"pay_kind": PER_JUDGEMENT, "pay": last.pay["per_judgement"], "currency": last.pay["currency"]}
    return {**plan.as_dict(), **percent, **pay}


def defaults(project: Project) -> dict[str, Any]:
    """Initial values from the study's settings, within the limits of the form."""
    n_items = min(max(Item.objects.filter(project=project, active=True).count(), MIN_ITEMS), MAX_ITEMS)
    pairs = n_items * (n_items - 1) // 2
    each = min(project.judgements_per_worker, pairs)
    most = min(pairs * project.redundancy, MAX_JUDGEMENTS)
    recruitment = Recruitment.objects.filter(project=project).first()
    paid = recruitment is not None and bool(recruitment.reward)
    return {
        "n_items": n_items,
        "judgements_each": each,
        "n_workers": min(max(min(most, 20 * n_items) // each, 1), MAX_WORKERS),
        "redundancy": project.redundancy,
        "policy": project.suggestions if project.suggestions in POLICIES else RANDOM,
        "random_share": project.random_share,
        "top_k": min(project.top_k, n_items - 1),
        "self_agreement": 85,
        "agreement": 75,
        "crowds": 10,
        "pay_kind": PER_JUDGEMENT if paid else UNPAID,
        "pay": round(recruitment.reward / project.judgements_per_worker, 3) if recruitment and paid else None,
        "seconds": 20,
        "currency": recruitment.currency if recruitment else "GBP",
    }
