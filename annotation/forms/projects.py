"""Forms for creating, changing, opening, copying and deleting a project."""

import re
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from itertools import count
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.utils.formats import number_format
from django.utils.text import slugify
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from annotation.models import Item, Project
from annotation.models.arms import list_designs
from annotation.services.deletion import ProjectArchived
from annotation.services.pairs.counts import count_pairs, count_possible_pairs

NUMBERS = [
    "judgements_per_worker",
    "redundancy",
    "answers_wanted",
    "repeat_share",
    "attention_checks",
    "lease_minutes",
    "pairs_ahead",
    "update_batch",
]
SUGGESTION_NUMBERS = ["top_k", "random_share"]
STOP_TARGET = "stop_target"
RETENTION = "retention_days"
# Texts in Markdown, with a preview on the settings page.
MARKDOWN_TEXTS = ("instructions", "consent", "thanks", "example_explanation")
EXAMPLE_TEXTS = ("example_first", "example_second")
# Paths under /projects/ that are not projects.
RESERVED_SLUGS = {"new"}
PLAIN_TEXT_NOTE = gettext_lazy(
    "This text was written before Markdown was available. It stays plain until you change it."
)


def describe_range(low: int, high: int) -> str:
    limits = {"low": number_format(low, force_grouping=True), "high": number_format(high, force_grouping=True)}
    return _("Choose a whole number from %(low)s to %(high)s.") % limits


@dataclass(frozen=True)
class FieldGroup:
    legend: str
    fields: list[forms.BoundField]
    text: str = ""
    platforms: str = ""  # the recruiting platforms for which the page shows the field, separated by spaces; "" for all


def _slug_field() -> forms.SlugField:
    return forms.SlugField(
        label=gettext_lazy("short name in links"),
        required=False,
        max_length=60,
        help_text=gettext_lazy(
            "Letters, digits and hyphens. Generated from the title if left blank. It cannot be changed later."
        ),
    )


class ProjectForm(forms.ModelForm):
    """Project settings. Pass `cleaned_data` to a service instead of calling `save()`: services write the audit log."""

    slug = _slug_field()

    class Meta:
        model = Project
        fields = [
            "title",
            "slug",
            "question",
            "instructions",
            "consent",
            "thanks",
            *EXAMPLE_TEXTS,
            "example_explanation",
            "language",
            "direction",
            "ties_allowed",
            "reason_asked",
            "group_shown",
            "own_view_shown",
            "listed",
            "ranking_public",
            "pairs",
            *NUMBERS,
            "suggestions",
            *SUGGESTION_NUMBERS,
            STOP_TARGET,
            "stop_pauses",
            RETENTION,
        ]
        widgets = {
            **{name: forms.Textarea(attrs={"rows": 3}) for name in EXAMPLE_TEXTS},
            **{name: forms.Textarea(attrs={"rows": 5, "data-markdown": True}) for name in MARKDOWN_TEXTS},
        }
        help_texts = {
            "question": gettext_lazy("Shown above every pair."),
            "instructions": gettext_lazy(
                "Shown before the first pair. What should workers consider, and what should they ignore?"
            ),
            "consent": gettext_lazy("What workers agree to: who you are, which data you store, how to withdraw."),
            "thanks": gettext_lazy("Shown after the last pair, for example whom to contact with questions."),
            "example_first": gettext_lazy("Write a text, or the key of an item to copy its text."),
            "example_second": gettext_lazy("Preferably two texts that workers will not judge themselves."),
            "example_explanation": gettext_lazy("Which of the two texts you would choose, and why."),
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in (*NUMBERS, *SUGGESTION_NUMBERS, STOP_TARGET, RETENTION):
            self.fields[name] = _integer_field(name)
        for name in self.instance.plain_texts:
            self.fields[name].help_text = f"{self.fields[name].help_text} {PLAIN_TEXT_NOTE}"
            self.fields[name].widget.attrs["data-plain"] = True
        if self.instance.pk:
            del self.fields["slug"]

    def groups(self) -> Iterator[FieldGroup]:
        """The form fields grouped into the sections of the settings page."""
        parts: list[tuple[str, list[str], str]] = [
            (
                _("Texts for workers"),
                ["title", "slug", "question", "instructions", "consent", "thanks", "language", "direction"],
                _(
                    "Instructions, consent and thank-you text may use Markdown: **bold**, *italic*, [link](https://…), "
                    "lines that start with - for lists and with # for headings. HTML is shown as text."
                ),
            ),
            (
                _("Worked example"),
                [*EXAMPLE_TEXTS, "example_explanation"],
                _("Shown before the first pair, if you write one: two texts, and what you would answer."),
            ),
            (
                _("Answers and visibility"),
                ["ties_allowed", "reason_asked", "group_shown", "own_view_shown", "listed", "ranking_public"],
                "",
            ),
            (_("Pairs and quotas"), ["pairs", *NUMBERS], ""),
            (
                _("Suggested pairs"),
                ["suggestions", *SUGGESTION_NUMBERS],
                _("Which pair a worker gets next, once the study has a model."),
            ),
            (_("Stop rule"), [STOP_TARGET, "stop_pauses"], ""),
            (_("Data retention"), [RETENTION], ""),
        ]
        for legend, names, text in parts:
            yield FieldGroup(legend, [self[name] for name in names if name in self.fields], text)

    def clean_slug(self) -> str:
        return _clean_slug(self.cleaned_data)

    def clean_example_first(self) -> str:
        return self._text_or_item("example_first")

    def clean_example_second(self) -> str:
        return self._text_or_item("example_second")

    def _text_or_item(self, name: str) -> str:
        """The text, or the text of the item with this key."""
        text = str(self.cleaned_data[name])
        item = Item.objects.filter(project=self.instance.pk, key=text).first() if text and self.instance.pk else None
        return item.text if item else text

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        for name in (*MARKDOWN_TEXTS, *EXAMPLE_TEXTS):
            if name in cleaned:
                cleaned[name] = cleaned[name].replace("\r\n", "\n")
        self._check_example(cleaned)
        if self.instance.pk and {"judgements_per_worker", "pairs"} & set(self.changed_data):
            self._check_quota(cleaned)
        return cleaned

    def _check_example(self, cleaned: dict[str, Any]) -> None:
        """Check that the example has two texts and an explanation, or is left out altogether."""
        names = (*EXAMPLE_TEXTS, "example_explanation")
        missing = [name for name in names if name in cleaned and not cleaned[name].strip()]
        if len(missing) < len(names):
            for name in missing:
                self.add_error(
                    name, _("The example needs two texts and an explanation. Leave all three empty for none.")
                )

    def _check_quota(self, cleaned: dict[str, Any]) -> None:
        """Limit the quota to the number of pairs, since a worker judges each pair once; no limit without items."""
        quota, pairs = cleaned.get("judgements_per_worker"), cleaned.get("pairs")
        if quota is None or pairs is None:
            return
        changed = copy(self.instance)
        changed.pairs = pairs
        limit = count_possible_pairs(changed).fewest
        if 0 < limit < quota:
            reason = _("The active items form %(n)s pairs, and a worker judges each pair once.")
            n_pairs = number_format(limit, force_grouping=True)
            self.add_error("judgements_per_worker", f"{describe_range(1, limit)} {reason % {'n': n_pairs}}")


def _integer_field(name: str) -> forms.IntegerField:
    """The model's integer field with one message for everything outside its range."""
    field: Any = Project._meta.get_field(name)
    low = max([0, *(v.limit_value for v in field.validators if isinstance(v, MinValueValidator))])
    high = min(v.limit_value for v in field.validators if isinstance(v, MaxValueValidator))
    message = describe_range(low, high)
    return forms.IntegerField(
        label=field.verbose_name,
        help_text=field.help_text,
        initial=field.default,
        min_value=low,
        max_value=high,
        error_messages=dict.fromkeys(["required", "invalid", "min_value", "max_value"], message),
    )


def _clean_slug(cleaned: dict[str, Any]) -> str:
    """Return the given short name, or one generated from the title; reject names that are reserved or taken."""
    slug = cleaned["slug"] or _free_slug(cleaned.get("title", ""))
    if not slug and "title" in cleaned:
        raise ValidationError(_("Enter a short name: none can be made from a title without Latin letters."))
    if slug in RESERVED_SLUGS:
        raise ValidationError(_("“%(slug)s” is reserved. Choose another short name.") % {"slug": slug})
    if Project.objects.filter(slug=slug).exists():
        raise ValidationError(_("Another study already uses this short name. Choose another."))
    return slug


def _free_slug(title: str) -> str:
    """Generate an unused short name from the title; empty if the title has no Latin letters."""
    base = re.sub(r"-+", "-", slugify(title)[:50]).strip("-")
    if not base:
        return ""
    names = (base if number == 1 else f"{base}-{number}" for number in count(1))
    return next(name for name in names if name not in RESERVED_SLUGS and not Project.objects.filter(slug=name).exists())


State = Project.State
# The states that can follow each state.
NEXT_STATES = {
    State.DRAFT: [State.OPEN],
    State.OPEN: [State.PAUSED, State.CLOSED],
    State.PAUSED: [State.OPEN, State.CLOSED],
    State.CLOSED: [State.OPEN],
}


class StateForm(forms.Form):
    state = forms.ChoiceField(choices=State.choices)

    def __init__(self, project: Project, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.project = project

    def clean_state(self) -> str:
        state = State(self.cleaned_data["state"])
        if self.project.archived_at:
            raise ValidationError(f"{ProjectArchived.title} {ProjectArchived.detail}")
        if state not in NEXT_STATES[State(self.project.state)]:
            states = {"current": self.project.get_state_display(), "requested": state.label}
            message = _("The study is %(current)s and cannot become %(requested)s. Nothing was changed.")
            raise ValidationError(message % states)
        if state == State.OPEN and not count_possible_pairs(self.project).fewest:
            raise ValidationError(self._explain_no_pairs())
        return state

    def _explain_no_pairs(self) -> str:
        if self.project.items.filter(active=True).count() < 2:
            return _("The study needs at least 2 active items before it can open. Import items first.")
        for design in list_designs(self.project):
            if design.arm and not count_pairs(design):
                return _("The arm “%(arm)s” has no pairs. Change its items on the Arms page.") % {"arm": design.arm}
        return _(
            "No two active items share a group, so there are no pairs. Put items into the same group, "
            "or allow pairs of any two items in the settings."
        )


class CopyForm(forms.Form):
    title = forms.CharField(label=gettext_lazy("title"), max_length=200)
    slug = _slug_field()
    with_items = forms.BooleanField(label=gettext_lazy("copy the active items"), required=False)

    def clean_slug(self) -> str:
        return _clean_slug(self.cleaned_data)


class DeleteForm(forms.Form):
    """Confirm a deletion by typing the short name."""

    typed = forms.CharField(label=gettext_lazy("short name of the study"), max_length=60)

    def __init__(self, project: Project, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.project = project
        self.message = _("Type “%(slug)s” exactly as shown. Nothing was deleted.") % {"slug": project.slug}
        self.fields["typed"].error_messages["required"] = self.message

    def clean_typed(self) -> str:
        if self.cleaned_data["typed"] != self.project.slug:
            raise ValidationError(self.message)
        return self.project.slug
