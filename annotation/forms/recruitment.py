"""Recruitment: platform, parameters, one completion code per outcome, and the list of people to invite."""

import csv
import re
from collections.abc import Iterator
from typing import Any, ClassVar

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from annotation.forms.projects import FieldGroup
from annotation.models import Recruitment, Worker
from annotation.platforms.generic import validate_completion_url
from annotation.platforms.signed_links import validate_jwks

CODE = re.compile(r"[A-Za-z0-9_-]{1,40}")
PARAMETER = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,39}")
MONEY = ["reward", "currency", "hourly_target", "estimated_minutes", "places", "pilot_workers"]
MAX_LABELS = 5000
MAX_LABEL = 200
MAX_BYTES = 1_000_000
HEADERS = ("email", "e-mail", "address", "label", "name", "participant", "id")
Outcome = Worker.Outcome
CODE_HELP = {
    Outcome.FINISHED: gettext_lazy("For workers who made all their judgements."),
    Outcome.STOPPED: gettext_lazy("For workers who stopped early."),
    Outcome.DECLINED: gettext_lazy("For people who do not consent. If empty, they are asked to return the task."),
    Outcome.SCREENED_OUT: gettext_lazy(
        "For workers who do not fit the study; you end their participation on the Participants page."
    ),
    Outcome.FAILED_CHECKS: gettext_lazy(
        "For workers who failed the checks. If empty, they are asked to return the task."
    ),
    Outcome.NO_WORK_LEFT: gettext_lazy("For workers who found no pairs, or whose study was closed. Please pay them."),
    Outcome.ERROR: gettext_lazy(
        "For workers who could not finish because of an error; you end their participation on the Participants page."
    ),
}


def code_field(outcome: str) -> str:
    return f"code_{outcome}"


class RecruitmentForm(forms.ModelForm):
    """A project's recruitment settings; pass `cleaned_data` to `change_recruitment`."""

    class Meta:
        model = Recruitment
        fields = [
            "platform",
            "study_id",
            "participant_parameter",
            "study_parameter",
            "session_parameter",
            "completion_url",
            "signed_links",
            "jwks",
            "webhook_secret",
            *MONEY,
        ]
        help_texts: ClassVar[dict[str, Any]] = {
            "completion_url": gettext_lazy(
                "You can use the placeholders {code}, {participant} and {session}. Without {code} the link is only for "
                "workers who finished, found no pairs or had an error. If empty, workers copy the code."
            )
        }
        widgets = {
            "jwks": forms.Textarea(attrs={"class": "code", "rows": 4, "spellcheck": "false"}),
            "webhook_secret": forms.PasswordInput(attrs={"autocomplete": "off"}),
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in MONEY:
            self.fields[name].required = False
        for outcome in CODE_HELP:
            self.fields[code_field(outcome)] = forms.CharField(
                label=outcome.label, required=False, max_length=40, help_text=CODE_HELP[outcome]
            )
            self.initial[code_field(outcome)] = self.instance.codes.get(outcome, "")

    def groups(self) -> Iterator[FieldGroup]:
        """The form fields grouped into the sections of the recruitment page."""
        names = Recruitment.Platform
        any_platform = f"{names.PROLIFIC} {names.MTURK} {names.GENERIC}"
        parts = [
            (_("Platform"), ["platform"], ""),
            (_("Study on the platform"), ["study_id"], any_platform),
            (
                _("Only for another panel"),
                ["participant_parameter", "study_parameter", "session_parameter", "completion_url"],
                names.GENERIC,
            ),
            (_("Only for Prolific"), ["signed_links", "jwks", "webhook_secret"], names.PROLIFIC),
            (_("Pay and places"), MONEY, ""),
            (_("Completion codes"), [code_field(outcome) for outcome in CODE_HELP], ""),
        ]
        for legend, fields, platforms in parts:
            yield FieldGroup(legend, [self[name] for name in fields], platforms=platforms)

    def clean_completion_url(self) -> str:
        address = self.cleaned_data["completion_url"].strip()
        if address:
            validate_completion_url(address)
        return address

    def clean_jwks(self) -> str:
        text = self.cleaned_data["jwks"].strip()
        if text:
            validate_jwks(text)
        return text

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        self._check_parameters(cleaned)
        self._check_signed_links(cleaned)
        for name in MONEY:  # an empty field means the default
            if name in cleaned and cleaned[name] in (None, ""):
                cleaned[name] = getattr(Recruitment(), name)
        if not cleaned.get("webhook_secret"):
            cleaned["webhook_secret"] = self.instance.webhook_secret  # the page does not show it
        codes = {outcome: cleaned.pop(code_field(outcome), "") for outcome in CODE_HELP}
        cleaned["codes"] = {str(outcome): code for outcome, code in codes.items() if code}
        for outcome, code in codes.items():
            if code and not CODE.fullmatch(code):
                self.add_error(code_field(outcome), _("Use up to 40 letters, digits, hyphens and underscores."))
            elif code and list(codes.values()).count(code) > 1:
                self.add_error(code_field(outcome), _("Each outcome needs its own code; this one appears twice."))
        return cleaned

    def _check_signed_links(self, cleaned: dict[str, Any]) -> None:
        if cleaned.get("signed_links") and not cleaned.get("jwks"):
            self.add_error("jwks", _("Signed links need Prolific's public keys."))

    def _check_parameters(self, cleaned: dict[str, Any]) -> None:
        names = ["participant_parameter", "study_parameter", "session_parameter"]
        for name in names:
            value = cleaned.get(name)
            if value and not PARAMETER.fullmatch(value):
                self.add_error(name, ValidationError(_("Use letters, digits, dots, hyphens and underscores.")))
        if cleaned.get("platform") == Recruitment.Platform.GENERIC and not cleaned.get("participant_parameter"):
            self.add_error("participant_parameter", _("Enter the name of the parameter with the participant's ID."))


class InviteWorkersForm(forms.Form):
    """The people to invite, pasted or uploaded; pass `cleaned_data` to `invite_workers`."""

    labels = forms.CharField(
        label=gettext_lazy("addresses or names"),
        required=False,
        strip=False,
        widget=forms.Textarea(attrs={"rows": 6, "spellcheck": "false"}),
        help_text=gettext_lazy("One per line. Each gets its own link."),
    )
    file = forms.FileField(
        label=gettext_lazy("or a file"),
        required=False,
        help_text=gettext_lazy(
            "A text or CSV file. The column email, address, label or name is read, or the first "
            "column if there is none of these."
        ),
    )
    days = forms.IntegerField(
        label=gettext_lazy("days until unused links expire"), min_value=1, max_value=365, initial=30
    )

    def clean_file(self) -> str:
        upload = self.cleaned_data["file"]
        if upload is None:
            return ""
        if upload.size > MAX_BYTES:
            raise ValidationError(_("The file is larger than %(limit)s MB.") % {"limit": 1})
        content = upload.read()
        for encoding in ("utf-8-sig", "cp1252"):
            try:
                return str(content.decode(encoding))
            except UnicodeDecodeError:
                continue
        raise ValidationError(_("The file is not a text file."))

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if self.errors:
            return cleaned
        try:
            labels = [*read_labels(cleaned["labels"]), *read_labels(cleaned["file"])]
        except csv.Error:
            raise ValidationError(_("The list cannot be read: perhaps a quotation mark is not closed.")) from None
        labels = list(dict.fromkeys(labels))
        if not labels:
            raise ValidationError(_("Enter at least one address or name, or choose a file."))
        if len(labels) > MAX_LABELS:
            raise ValidationError(_("At most %(limit)s people can be invited at once.") % {"limit": f"{MAX_LABELS:,}"})
        if long := next((label for label in labels if len(label) > MAX_LABEL or "\0" in label), None):
            raise ValidationError(_("This is not an address or a name: %(label)s …") % {"label": long[:40]})
        return {"labels": labels, "days": cleaned["days"]}


def read_labels(text: str) -> list[str]:
    """The non-empty cells of the address column."""
    first = text.split("\n", 1)[0]
    rows = [row for row in csv.reader(text.splitlines(), delimiter=max(",;\t", key=first.count), strict=True) if row]
    header = [cell.strip().lower() for cell in rows[0]] if rows else []
    named = next((header.index(name) for name in HEADERS if name in header), None)
    column, rows = (0, rows) if named is None else (named, rows[1:])
    cells = (row[column].strip() for row in rows if len(row) > column)
    return [cell for cell in cells if cell]
