"""Which version a page shows, how far behind the newest judgement it is, and what the updater is doing about it."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from zlib import crc32

from django.utils import timezone
from django.utils.formats import number_format
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from annotation.models import Judgement, Project
from modelling.inputs import moment_of
from modelling.models import ModelSnapshot, SettingsSearch, UpdateState
from modelling.versions import pinned_of, shown_of

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
            "comparing": _("Learning the methods it is compared with"),
        }
        return stages.get(self.what, _("Learning"))


@dataclass(frozen=True)
class Freshness:
    """`snapshot` is what pages show, `newest` what the model has come to; they differ while a version is pinned."""

    project: Project
    snapshot: ModelSnapshot | None
    newest: ModelSnapshot | None
    pinned: bool
    labels: int
    behind: int
    condition: str
    words: str
    progress: Progress | None
    mark: str

    @property
    def updated_at(self) -> datetime | None:
        """When the model last learned, whatever is shown."""
        return self.newest.created_at if self.newest else None

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
    def etag(self) -> str:
        return f'"{self.project.pk}-{self.revision}-{self.labels}-{self.mark}"'

    @property
    def standing(self) -> list[str]:
        """What is shown, how far behind it is, and when the model last learned: a sentence each."""
        told = []
        if self.snapshot:
            numbers = {"number": self.snapshot.number, "included": _counted(self.snapshot.included)}
            told.append(_("Version %(number)d, from %(included)s judgements.") % numbers)
        if told_last := self._last_words():
            told.append(told_last)
        return told

    def _last_words(self) -> str:
        update = {"at": _moment(self.updated_at), "behind": _counted(self.behind)}
        if self.behind and self.updated_at:
            return (
                ngettext(
                    "%(behind)s judgement saved, not yet in the ranking; last update %(at)s.",
                    "%(behind)s judgements saved, not yet in the ranking; last update %(at)s.",
                    self.behind,
                )
                % update
            )
        if self.behind:
            words = ngettext("%(behind)s judgement saved.", "%(behind)s judgements saved.", self.behind)
            return words % update
        return _("Last update %(at)s.") % update if self.updated_at else ""

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
        return [told % numbers, *_taken_back_words(self.snapshot)]


def _taken_back_words(snapshot: ModelSnapshot) -> list[str]:
    """Of a version that stays on show: judgements it has learned from that were taken back after it."""
    last = snapshot.last_sequence
    gone = Judgement.objects.filter(project=snapshot.project_id, sequence__lte=last, retraction__sequence__gt=last)
    if not (count := gone.count()):
        return []
    words = ngettext(
        "%(count)s of its judgements has been taken back since.",
        "%(count)s of its judgements have been taken back since.",
        count,
    )
    return [words % {"count": _counted(count)}]


def _counted(number: int) -> str:
    return number_format(number, force_grouping=True)


def _moment(at: datetime | None) -> str:
    """12:03 UTC of today, otherwise with its date."""
    if at is None:
        return ""
    at = at.astimezone(UTC)
    return at.strftime("%H:%M UTC" if at.date() == timezone.now().date() else "%Y-%m-%d %H:%M UTC")


def freshness_of(project: Project) -> Freshness:
    """The version to show, and how many saved judgements the newest version has not learned from."""
    state = UpdateState.objects.filter(project=project).select_related("current", "pinned").first() or UpdateState()
    search = SettingsSearch.objects.filter(project=project).first()
    return Freshness(
        project=project,
        snapshot=shown_of(state),
        newest=state.current,
        pinned=bool(state.current and pinned_of(state)),
        labels=moment_of(project).sequence,
        behind=Judgement.objects.filter(project=project, sequence__gt=state.done_sequence).count(),
        condition=state.condition,
        words=state.words,
        progress=Progress.of(state.progress),
        mark=mark_of(state, search),
    )


def mark_of(state: UpdateState, search: SettingsSearch | None) -> str:
    """A short sign that changes with anything a page says about the updater: what it has done, why not, how far."""
    pointers = [state.current_id, state.pinned_id, state.done_sequence]
    asked = [search.pk, search.state, search.progress] if search else []
    said = json.dumps([*pointers, state.condition, state.words, state.progress, *asked], sort_keys=True)
    return f"{crc32(said.encode()):08x}"
