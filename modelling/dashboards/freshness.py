"""Which version a page shows, how far behind the newest judgement it is, and what the updater is doing about it."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from zlib import crc32

from django.db.models import OuterRef, Subquery
from django.db.models.functions import Coalesce
from django.utils import timezone
from django.utils.formats import number_format
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from annotation.models import AuditEntry, EventHead, Judgement, Project, Retraction
from modelling.inputs import PREFERENCE
from modelling.models import ExportJob, Job, ModelSnapshot, SettingsSearch, UpdateState
from modelling.troubles import translated
from modelling.versions import pinned_of

LARGEST_SHARE = 0.99  # a fit that still runs is never shown as done


@dataclass(frozen=True)
class Progress:
    """How far the fit that runs now has come."""

    what: str
    share: float | None
    iteration: int | None
    change: float | None

    @classmethod
    def of(cls, stored: dict[str, Any]) -> "Progress | None":
        if not stored:
            return None
        share = stored.get("share")
        bounded = None if share is None else min(max(float(share), 0.0), LARGEST_SHARE)
        return cls(str(stored.get("what", "")), bounded, stored.get("iteration"), stored.get("change"))

    @property
    def percent(self) -> int | None:
        """None while there is nothing to count."""
        return int(100 * self.share) if self.share is not None and self.iteration else None

    @property
    def words(self) -> str:
        stages = {
            "reading": _("Reading the judgements"),
            "choosing": _("Finding out how much tastes differ"),
            "refining": _("Refining the version"),
            "comparing": _("Learning the methods it is compared with"),
        }
        return stages.get(self.what, _("Learning"))


@dataclass(frozen=True)
class Freshness:
    """`snapshot` is what pages show, `newest` what the model has come to; they differ while a version is pinned.

    `behind` are standing answers the shown version lacks, `taken_back` answers it has that stand no more; `changed` is
    the last thing somebody did by hand: named, switched off, paused, erased.
    """

    project: Project
    snapshot: ModelSnapshot | None
    newest: ModelSnapshot | None
    pinned: bool
    labels: int
    behind: int
    taken_back: int
    condition: str
    words: str
    progress: Progress | None
    mark: str
    changed: int

    @property
    def updated_at(self) -> datetime | None:
        """When the shown version was made."""
        return self.snapshot.created_at if self.snapshot else None

    @property
    def revision(self) -> int:
        return self.snapshot.number if self.snapshot else 0

    @property
    def waits(self) -> bool:
        return self.condition == UpdateState.Condition.WAITING

    @property
    def degraded(self) -> bool:
        return self.condition == UpdateState.Condition.DEGRADED

    @property
    def standing(self) -> list[str]:
        """What is shown, when it was made, what it lacks, and what it has too much: a sentence each."""
        told = []
        if self.snapshot:
            numbers = {"number": self.snapshot.number, "included": _counted(self.snapshot.included)}
            told.append(_("Version %(number)d, from %(included)s judgements.") % numbers)
        if told_last := self._last_words():
            told.append(told_last)
        return told + ([] if self.pinned else self._still_in_words())

    def _last_words(self) -> str:
        if self.pinned:
            words = self._lacking_words() if self.behind else _("Made %(at)s.")
        elif self.behind:
            words = self._waiting_words()
        else:
            words = _("Last update %(at)s.") if self.snapshot else ""
        return words % {"at": _moment(self.updated_at), "behind": _counted(self.behind)}

    def _lacking_words(self) -> str:
        return ngettext(
            "Made %(at)s; %(behind)s judgement saved since is not in it.",
            "Made %(at)s; %(behind)s judgements saved since are not in it.",
            self.behind,
        )

    def _waiting_words(self) -> str:
        if self.snapshot is None:
            return ngettext("%(behind)s judgement saved.", "%(behind)s judgements saved.", self.behind)
        return ngettext(
            "%(behind)s judgement saved, not yet in the ranking; last update %(at)s.",
            "%(behind)s judgements saved, not yet in the ranking; last update %(at)s.",
            self.behind,
        )

    def _still_in_words(self) -> list[str]:
        """Of a version that the next one replaces: what was taken back after it."""
        if not (self.snapshot and self.taken_back):
            return []
        words = ngettext(
            "%(count)s answer taken back, not yet left out of the ranking.",
            "%(count)s answers taken back, not yet left out of the ranking.",
            self.taken_back,
        )
        return [words % {"count": _counted(self.taken_back)}]

    @property
    def pinned_words(self) -> list[str]:
        """What being pinned means now; empty where nothing is."""
        if not (self.pinned and self.snapshot and self.newest):
            return []
        numbers = {"number": self.snapshot.number, "newest": self.newest.number}
        if self.newest == self.snapshot:
            told = _("Version %(number)d is pinned. The model goes on learning; newer versions are not shown.")
        else:
            told = _("Version %(number)d is pinned; the model has gone on to version %(newest)d.")
        return [told % numbers, *self._taken_back_words()]

    def _taken_back_words(self) -> list[str]:
        """Of a version that stays on show: what was taken back after it."""
        if not self.taken_back:
            return []
        words = ngettext(
            "%(count)s of its judgements has been taken back since.",
            "%(count)s of its judgements have been taken back since.",
            self.taken_back,
        )
        return [words % {"count": _counted(self.taken_back)}]


def _counted(number: int) -> str:
    return number_format(number, force_grouping=True)


def _moment(at: datetime | None) -> str:
    """12:03 UTC of today, otherwise with its date."""
    if at is None:
        return ""
    at = at.astimezone(UTC)
    return at.strftime("%H:%M UTC" if at.date() == timezone.now().date() else "%Y-%m-%d %H:%M UTC")


def freshness_of(project: Project) -> Freshness:
    """The version to show, and what was saved or taken back after it."""
    state = UpdateState.objects.filter(project=project).select_related("current", "pinned").first() or UpdateState()
    jobs = [kind.objects.filter(project=project).first() for kind in (SettingsSearch, ExportJob)]
    pinned = pinned_of(state) if state.current else None
    last = pinned.last_sequence if pinned else state.done_sequence
    [(_project, labels, changed)] = heads([project.pk])
    behind, taken_back = _since(project, last) if labels > last else (0, 0)
    return Freshness(
        project=project,
        snapshot=pinned or state.current,
        newest=state.current,
        pinned=pinned is not None,
        labels=labels,
        behind=behind,
        taken_back=taken_back,
        condition=state.condition,
        words=translated(state.words),
        progress=Progress.of(state.progress),
        mark=mark_of(state, [job for job in jobs if job]),
        changed=changed,
    )


def heads(project_ids: Sequence[int]) -> list[tuple[int, int, int]]:
    """Of each project: its last event, and its last entry in the audit, which has all that people change by hand."""
    entries = AuditEntry.objects.filter(project=OuterRef("project")).order_by("-pk").values("pk")[:1]
    found = EventHead.objects.filter(project__in=project_ids).annotate(changed=Coalesce(Subquery(entries), 0))
    return list(found.values_list("project", "sequence", "changed"))


def _since(project: Project, last: int) -> tuple[int, int]:
    """After this event: how many answers came and stand, and how many of those before it were taken back."""
    came = Judgement.objects.answers().filter(project=project, sequence__gt=last)
    gone = Retraction.objects.filter(project=project, sequence__gt=last, judgement__sequence__lte=last)
    return came.count(), gone.filter(judgement__choice__in=list(PREFERENCE)).count()


def mark_of(state: UpdateState, jobs: Sequence[Job]) -> str:
    """A short sign that changes with anything a page says about the updater: what it has done, why not, how far."""
    pointers = [state.current_id, state.pinned_id, state.done_sequence]
    asked = [[job.pk, job.state, job.progress] for job in jobs]
    said = json.dumps([*pointers, state.condition, state.words, state.progress, asked], sort_keys=True)
    return f"{crc32(said.encode()):08x}"
