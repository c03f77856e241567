"""A project's words and rules, its state, and its members, with every legal range said in words."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db.models import Count
from django.utils.formats import number_format
from django.utils.text import slugify
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from annotation.forms.questionnaire import as_text, parse_questionnaire
from annotation.models import Item, Membership, Project, User
from annotation.services.deletion import Archived

NUMBERS = [
    "judgements_per_worker",
    "redundancy",
    "answers_wanted",
    "repeat_share",
    "random_share",
    "lease_minutes",
    "update_batch",
]
KEPT = "retention_days"
# Addresses under /projects/ that are no project.
RESERVED_SLUGS = {"new"}
QUESTIONNAIRE_LENGTH = 20_000


def possible_pairs(project: Project, pairs: str) -> int:
    """How many pairs the active items can form under this rule."""
    groups = Item.objects.filter(project=project, active=True).order_by().values_list("group").annotate(Count("pk"))
    sizes = [size for _group, size in groups]
    if pairs == Project.Pairs.ANY:
        sizes = [sum(sizes)]
    return sum(size * (size - 1) // 2 for size in sizes)


def allowed_range(low: int, high: int) -> str:
    limits = {"low": number_format(low, force_grouping=True), "high": number_format(high, force_grouping=True)}
    return _("Choose a whole number from %(low)s to %(high)s.") % limits


@dataclass(frozen=True)
class FieldGroup:
    legend: str
    fields: list[forms.BoundField]


def _slug_field() -> forms.SlugField:
    return forms.SlugField(
        label=gettext_lazy("short name in links"),
        required=False,
        max_length=60,
        help_text=gettext_lazy("Letters, digits and hyphens. Made from the title if left empty; fixed afterwards."),
    )


class ProjectForm(forms.ModelForm):
    """Gives `cleaned_data` to a service; it is never saved by itself, so that every change is in the audit."""

    slug = _slug_field()
    questionnaire = forms.CharField(
        label=gettext_lazy("questions to workers"),
        required=False,
        max_length=QUESTIONNAIRE_LENGTH,
        widget=forms.Textarea(attrs={"class": "code", "rows": 8, "spellcheck": "false"}),
        help_text=Project._meta.get_field("questionnaire").help_text,
    )

    class Meta:
        model = Project
        fields = [
            "title",
            "slug",
            "question",
            "instructions",
            "consent",
            "language",
            "direction",
            "ties_allowed",
            "reason_asked",
            "group_shown",
            "listed",
            "ranking_public",
            "pairs",
            *NUMBERS,
            "questionnaire",
            KEPT,
        ]
        widgets = {name: forms.Textarea(attrs={"rows": 5}) for name in ("instructions", "consent")}
        help_texts = {
            "question": gettext_lazy("Shown above every pair."),
            "instructions": gettext_lazy("Shown before the first pair. What should workers look at, and what not?"),
            "consent": gettext_lazy("What workers agree to: who you are, what you keep, how to withdraw."),
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in (*NUMBERS, KEPT):
            self.fields[name] = _whole_number(name)
        if self.instance.pk:
            del self.fields["slug"]
            self.initial["questionnaire"] = as_text(self.instance.questionnaire)

    def groups(self) -> Iterator[FieldGroup]:
        """The fields as the page shows them."""
        parts = [
            (_("What workers read"), ["title", "slug", "question", "instructions", "consent", "language", "direction"]),
            (
                _("What workers see and may answer"),
                ["ties_allowed", "reason_asked", "group_shown", "listed", "ranking_public"],
            ),
            (_("Who judges what"), ["pairs", *NUMBERS]),
            (_("What workers are asked about themselves, and how long it is kept"), ["questionnaire", KEPT]),
        ]
        for legend, names in parts:
            yield FieldGroup(legend, [self[name] for name in names if name in self.fields])

    def clean_slug(self) -> str:
        return _checked_slug(self.cleaned_data)

    def clean_questionnaire(self) -> list[dict[str, Any]]:
        return parse_questionnaire(self.cleaned_data["questionnaire"])

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if self.instance.pk and {"judgements_per_worker", "pairs"} & set(self.changed_data):
            self._refuse_a_quota_beyond_the_pairs(cleaned)
        return cleaned

    def _refuse_a_quota_beyond_the_pairs(self, cleaned: dict[str, Any]) -> None:
        """A worker meets a pair once, so no quota may exceed the pairs. Without items there is no limit yet."""
        quota, pairs = cleaned.get("judgements_per_worker"), cleaned.get("pairs")
        if quota is None or pairs is None:
            return
        most = possible_pairs(self.instance, pairs)
        if 0 < most < quota:
            reason = _("The active items form %(n)s pairs, and a worker judges each of them once.")
            words = [allowed_range(1, most), reason % {"n": number_format(most, force_grouping=True)}]
            self.add_error("judgements_per_worker", " ".join(words))


def _whole_number(name: str) -> forms.IntegerField:
    """The model's number field with one message for every way to miss its range."""
    field: Any = Project._meta.get_field(name)
    low = max([0, *(v.limit_value for v in field.validators if isinstance(v, MinValueValidator))])
    high = min(v.limit_value for v in field.validators if isinstance(v, MaxValueValidator))
    message = allowed_range(low, high)
    return forms.IntegerField(
        label=field.verbose_name,
        help_text=field.help_text,
        initial=field.default,
        min_value=low,
        max_value=high,
        error_messages=dict.fromkeys(["required", "invalid", "min_value", "max_value"], message),
    )


def _checked_slug(cleaned: dict[str, Any]) -> str:
    """The short name that was given, or one made from the title; refused where it is taken or is an address of ours."""
    slug = cleaned["slug"] or _free_slug(cleaned.get("title", ""))
    if not slug and "title" in cleaned:
        raise ValidationError(_("The title holds no Latin letters to make a short name from. Write one here."))
    if slug in RESERVED_SLUGS:
        raise ValidationError(_("“%(slug)s” is an address of Concord itself. Choose another.") % {"slug": slug})
    if Project.objects.filter(slug=slug).exists():
        raise ValidationError(_("There is a project with this short name already. Choose another."))
    return slug


def _free_slug(title: str) -> str:
    """A short name made from the title that no project has; empty when the title holds no Latin letters."""
    base = re.sub(r"-+", "-", slugify(title)[:50]).strip("-")
    if not base:
        return ""
    names = (base if number == 1 else f"{base}-{number}" for number in count(1))
    return next(name for name in names if name not in RESERVED_SLUGS and not Project.objects.filter(slug=name).exists())


State = Project.State
# From each state, where a project may go.
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
            raise ValidationError(f"{Archived.title} {Archived.detail}")
        if state not in NEXT_STATES[State(self.project.state)]:
            words = {"now": self.project.get_state_display(), "wanted": state.label}
            raise ValidationError(_("The study is %(now)s and cannot become %(wanted)s. Nothing was changed.") % words)
        if state == State.OPEN and not possible_pairs(self.project, self.project.pairs):
            raise ValidationError(self._why_no_pair())
        return state

    def _why_no_pair(self) -> str:
        if self.project.items.filter(active=True).count() < 2:
            return _("At least 2 active items are needed before the study can open. Import some first.")
        return _(
            "No two active items share a group, so no pair can be formed. Give items the same group, "
            "or let any two items be paired in the settings."
        )


class CopyForm(forms.Form):
    """What a copy is called, and whether it begins with the same items."""

    title = forms.CharField(label=gettext_lazy("title"), max_length=200)
    slug = _slug_field()
    with_items = forms.BooleanField(label=gettext_lazy("with the items that are given to workers"), required=False)

    def clean_slug(self) -> str:
        return _checked_slug(self.cleaned_data)


class DeleteForm(forms.Form):
    """Deleted by whoever types its short name."""

    typed = forms.CharField(label=gettext_lazy("the project's short name"), max_length=60)

    def __init__(self, project: Project, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.project = project
        self.words = _("Type “%(slug)s” exactly. Nothing was deleted.") % {"slug": project.slug}
        self.fields["typed"].error_messages["required"] = self.words

    def clean_typed(self) -> str:
        if self.cleaned_data["typed"] != self.project.slug:
            raise ValidationError(self.words)
        return self.project.slug


class MemberForm(forms.Form):
    """A researcher by log-in name and the role they shall have; an empty role removes them."""

    member = forms.CharField(label=gettext_lazy("log-in name"), max_length=150)
    role = forms.ChoiceField(
        label=gettext_lazy("role"),
        choices=Membership.Role.choices,
        initial=Membership.Role.VIEWER,
        required=False,
    )

    def clean_member(self) -> User:
        member = User.objects.filter(username=self.cleaned_data["member"], is_active=True).first()
        if member is None:
            raise ValidationError(
                _("There is no active account with this name. Check the spelling, or ask an administrator for one.")
            )
        return member

    def clean_role(self) -> str | None:
        return self.cleaned_data["role"] or None
