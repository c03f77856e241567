"""A model's settings in words: what each does, what it may be, and what it is where nobody has chosen."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.formats import number_format
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from annotation.forms.projects import FieldGroup, allowed_range
from annotation.models import Item, Project
from modelling import outgoing, webhooks
from modelling.model_settings import LIMITS, NEAR, NONE, NUMERIC, SURFACE, SWITCHES, TEXTS, VECTORS, ModelSettings
from modelling.models import Webhook

USUAL = ModelSettings()
LABELS = {
    "n_components": gettext_lazy("components of taste"),
    "n_inducing_items": gettext_lazy("inducing points"),
    "kernel": gettext_lazy("what makes two items alike"),
    "personal_variance": gettext_lazy("how much tastes may differ"),
    "consensus_variance": gettext_lazy("expected spread of the consensus"),
    "consensus_certainty": gettext_lazy("weight of that expectation"),
    "traits": gettext_lazy("learn from what workers tell about themselves"),
    "reliability": gettext_lazy("weigh workers by how consistent they are"),
    "refit_growth": gettext_lazy("start again when the judgements have grown by the factor"),
    "refine": gettext_lazy("refine versions while the study is small"),
    "seed": gettext_lazy("random seed"),
}
HELP = {
    "n_components": gettext_lazy(
        "How many ways of differing the model may find among workers. Those that the data do not need stay unused; "
        "0 means one ranking for all."
    ),
    "n_inducing_items": gettext_lazy(
        "How finely the model tells items apart by what they are. More is slower; beyond the number of items it "
        "changes nothing."
    ),
    "kernel": gettext_lazy(
        "By this the model guesses at items that few people have judged; what people judged always counts for more. "
        "Form is length, punctuation and readability; meaning is word vectors; own numbers are the columns feature:… "
        "of the import."
    ),
    "personal_variance": gettext_lazy(
        "Small: everybody is expected to be close to the consensus. Large: everybody may go their own way. "
        "Left empty, it is chosen on judgements held back at each fit from scratch."
    ),
    "consensus_variance": gettext_lazy(
        "Small: the best and the worst item are expected to be close. The judgements soon overrule it."
    ),
    "consensus_certainty": gettext_lazy(
        "Small: the first judgements overrule the expected spread. Large: it takes many."
    ),
    "traits": gettext_lazy(
        "Newcomers are expected to think like workers who gave similar answers to the questionnaire, as far as the "
        "judgements show that this holds. Where the answers say nothing, nothing changes."
    ),
    "reliability": gettext_lazy(
        "Who answers at random counts for less. Disagreeing with the others is not enough: what counts is whether a "
        "worker's answers can be foretold, also from the same worker's other answers. A fit from scratch takes about "
        "twice as long."
    ),
    "refit_growth": gettext_lazy(
        "Between fits from scratch the model learns step by step. A smaller factor starts again more often, which is "
        "slower and a little more exact."
    ),
    "refine": gettext_lazy(
        "A slower pass after the fit: scores, intervals and ranks come from draws of the exact posterior. Up to 500 "
        "judgements, with items times workers at most 1,000, and with components of taste times items and workers, "
        "plus items, at most 800: with 10 workers up to 63 items at 10 components, up to 100 at 5. A version then "
        "takes some seconds longer. Larger studies are not refined."
    ),
    "seed": gettext_lazy("The same judgements, settings and seed give the same ranking, to the last digit."),
}
KERNEL_WORDS = {
    TEXTS: gettext_lazy("texts: form, words, meaning"),
    NEAR: gettext_lazy("the same, but only texts of nearly the same form are alike"),
    SURFACE: gettext_lazy("only the form of the texts"),
    VECTORS: gettext_lazy("only the meaning of the texts"),
    NUMERIC: gettext_lazy("only the items' own numbers"),
    NONE: gettext_lazy("nothing: each item alone"),
}


@dataclass(frozen=True)
class Explained:
    """One setting as a page tells it; `before` is its value in the version it is compared with."""

    label: str
    value: str
    usual: bool
    before: str = ""


def explained(settings: ModelSettings, instead_of: ModelSettings = USUAL) -> list[Explained]:
    """Every setting in words, in the order of the form."""
    given, before, usual = settings.as_dict(), instead_of.as_dict(), USUAL.as_dict()
    return [
        Explained(str(label), in_words(name, given[name]), given[name] == usual[name], in_words(name, before[name]))
        for name, label in LABELS.items()
    ]


def in_words(name: str, value: Any) -> str:
    if name == "kernel":
        return str(KERNEL_WORDS[value])
    if value is None:
        return _("chosen by itself")
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    return number_format(f"{value:g}" if isinstance(value, float) else value)


class ModelSettingsForm(forms.Form):
    """Gives `changes` to a service; it is never saved by itself, so that every change is in the audit."""

    def __init__(self, project: Project, data: Any = None) -> None:
        super().__init__(data, initial=_initial(project))
        self.project = project
        for name in LABELS:
            self.fields[name] = _field(name)
        self.fields["update_batch"] = _update_batch()

    def groups(self) -> Iterator[FieldGroup]:
        """The fields as the page shows them."""
        priors = ["personal_variance", "consensus_variance", "consensus_certainty"]
        parts = [
            (_("What it looks for"), ["n_components", "kernel", "n_inducing_items"]),
            (_("What it expects before anybody judges"), priors),
            (_("What it makes of workers"), ["traits", "reliability"]),
            (_("When it learns"), ["update_batch", "refit_growth", "refine", "seed"]),
        ]
        for legend, names in parts:
            yield FieldGroup(legend, [self[name] for name in names])

    def clean_kernel(self) -> str:
        kernel = str(self.cleaned_data["kernel"])
        if kernel == NUMERIC and not have_numbers(self.project):
            raise ValidationError(
                _("Not every active item has numbers of its own. Import them as columns feature:…, or choose another.")
            )
        return kernel

    @property
    def changes(self) -> dict[str, Any]:
        """For `change_project`: what was chosen, with the defaults left unsaid."""
        given = dict(self.cleaned_data)
        batch = given.pop("update_batch")
        return {"model_settings": ModelSettings.of(given).chosen(), "update_batch": batch}


def legal_settings(project: Project) -> ModelSettings:
    """What holds now; what is not legal is shown as the default, not refused before anybody could mend it."""
    try:
        return ModelSettings.of(project.model_settings)
    except ValueError:
        return USUAL


def _initial(project: Project) -> dict[str, Any]:
    return {**legal_settings(project).as_dict(), "update_batch": project.update_batch}


def have_numbers(project: Project) -> bool:
    """Whether all active items share a numeric column."""
    rows = Item.objects.filter(project=project, active=True).values_list("features", flat=True)
    shared = [set(features) for features in rows]
    return bool(shared) and bool(set.intersection(*shared))


def _field(name: str) -> forms.Field:
    usual = getattr(USUAL, name)
    if name == "kernel":
        choices = [(value, _marked(words) if value == usual else words) for value, words in KERNEL_WORDS.items()]
        return forms.ChoiceField(label=LABELS[name], help_text=HELP[name], choices=choices)
    if name in SWITCHES:
        words = " ".join([str(HELP[name]), _default_words(name, usual)])
        return forms.BooleanField(label=LABELS[name], help_text=words, required=False)
    return _number(name, usual)


def _marked(words: Any) -> str:
    return _("%(words)s (default)") % {"words": words}


def _number(name: str, usual: float | None) -> forms.Field:
    """A number field with its range and default in its help, and one message for every way to miss the range."""
    low, high = LIMITS[name]
    whole = isinstance(usual, int)
    message = allowed_range(int(low), int(high)) if whole else _number_range(low, high)
    kind: Any = forms.IntegerField if whole else forms.FloatField
    return kind(
        label=LABELS[name],
        required=usual is not None,
        help_text=" ".join([str(HELP[name]), message, _default_words(name, usual)]),
        min_value=low,
        max_value=high,
        error_messages=dict.fromkeys(["required", "invalid", "min_value", "max_value"], message),
        widget=forms.NumberInput(attrs={} if whole else {"step": "any"}),
    )


def _number_range(low: float, high: float) -> str:
    return _("Choose a number from %(low)s to %(high)s.") % {"low": number_format(low), "high": number_format(high)}


def _default_words(name: str, usual: float | None) -> str:
    return _("Default: %(value)s.") % {"value": in_words(name, usual)}


def _update_batch() -> forms.Field:
    field: Any = Project._meta.get_field("update_batch")
    message = allowed_range(1, 100_000)
    return forms.IntegerField(
        label=field.verbose_name,
        min_value=1,
        max_value=100_000,
        help_text=" ".join([str(field.help_text), _default_words("update_batch", field.default)]),
        error_messages=dict.fromkeys(["required", "invalid", "min_value", "max_value"], message),
    )


class WebhookForm(forms.ModelForm):
    """An address on a host that an administrator has listed, and what it is told of."""

    class Meta:
        model = Webhook
        fields = ["url", "on_version", "on_goal"]
        widgets = {"url": forms.TextInput(attrs={"inputmode": "url", "autocomplete": "off", "spellcheck": "false"})}
        help_texts = {"url": gettext_lazy("https only, on a host that an administrator has listed.")}

    def __init__(self, project: Project, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.project = project

    def clean_url(self) -> str:
        url: str = self.cleaned_data["url"]
        if Webhook.objects.filter(project=self.project, url=url).exists():
            raise ValidationError(_("There is a webhook to this address already."))
        try:
            webhooks.must_be_listed(url)
        except outgoing.Refused as refusal:
            raise ValidationError(_(str(refusal))) from None
        return url

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if not (cleaned.get("on_version") or cleaned.get("on_goal")):
            raise ValidationError(_("Choose at least one thing that the webhook is told of."))
        return cleaned
