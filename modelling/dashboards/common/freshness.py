"""The version that pages show, the judgements it lacks, and the state of the updater."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any
from zlib import crc32

from django.db.models import OuterRef, Subquery
from django.db.models.functions import Coalesce
from django.utils import timezone
from django.utils.formats import number_format
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from annotation.models import AuditEntry, EventHead, Judgement, Project, Retraction
from modelling.dashboards.common.warnings import PARTS, ResultWarning, describe_warnings, find_warnings
from modelling.models import ExportJob, Job, ModelSnapshot, SettingsSearch, StudySimulation, UpdateState
from modelling.training.inputs import PREFERENCE
from modelling.training.size import exceeded_limit
from modelling.training.versions import get_pinned_snapshot
from modelling.training.votes import get_votes
from modelling.updater.failure_messages import translate_message

JOBS = (SettingsSearch, ExportJob, StudySimulation)  # jobs whose progress is shown on pages
MAX_SHARE = 0.99  # a running fit is never shown as complete


@dataclass(frozen=True)
class FitProgress:
    """Progress of the running fit."""

    stage: str
    share: float | None
    iteration: int | None
    change: float | None
    processes: int = 1

    @classmethod
    def parse(cls, stored: dict[str, Any]) -> "FitProgress | None":
        if not stored:
            return None
        share = stored.get("share")
        bounded = None if share is None else min(max(float(share), 0.0), MAX_SHARE)
        processes = int(stored.get("processes", 1))
        return cls(str(stored.get("what", "")), bounded, stored.get("iteration"), stored.get("change"), processes)

    @property
    def percent(self) -> int | None:
        """Percentage done; None before the first iteration."""
        return int(100 * self.share) if self.share is not None and self.iteration else None

    @property
    def label(self) -> str:
        stages = {
            "reading": _("Reading the judgements"),
            "comparing": _("Fitting the baselines"),
        }
        return stages.get(self.stage, _("Fitting the model"))


@dataclass(frozen=True)
class Freshness:
    """`snapshot` is what pages show, `newest` the latest one; they differ while a version is pinned.

    `behind` counts valid judgements that the shown version lacks, `retracted` those it includes that were retracted
    since. `last_change` is the newest audit entry, that is, the last change by a user.
    """

    project: Project
    snapshot: ModelSnapshot | None
    newest: ModelSnapshot | None
    pinned: bool
    last_event: int
    behind: int
    retracted: int
    condition: str
    message: str
    progress: FitProgress | None
    status_hash: str
    last_change: int

    @property
    def updated_at(self) -> datetime | None:
        return self.snapshot.created_at if self.snapshot else None

    @property
    def version_number(self) -> int:
        return self.snapshot.number if self.snapshot else 0

    @cached_property
    def n_parts(self) -> int:
        """The number of parts of the comparison graph in the shown version."""
        return get_votes(self.snapshot).n_parts if self.snapshot else 0

    @cached_property
    def _warnings(self) -> list[ResultWarning]:
        return find_warnings(self.snapshot) if self.snapshot else []

    @property
    def caution(self) -> str:
        """One sentence about what makes the shown version doubtful; empty if nothing does."""
        return describe_warnings(self.snapshot, self._warnings) if self.snapshot else ""

    @property
    def caution_without_parts(self) -> str:
        """`caution` without the warning about parts, for the ranking page, which explains them itself."""
        others = [each for each in self._warnings if each.code != PARTS]
        return describe_warnings(self.snapshot, others) if self.snapshot else ""

    @cached_property
    def most_items(self) -> int:
        """The largest number of items that the model can fit, if the study has more; otherwise 0."""
        return exceeded_limit(self.project)

    @property
    def is_waiting(self) -> bool:
        return self.condition == UpdateState.Condition.WAITING

    @property
    def is_degraded(self) -> bool:
        return self.condition == UpdateState.Condition.DEGRADED

    @property
    def status_lines(self) -> list[str]:
        """The shown version, when it was made, and which judgements it lacks or should no longer have."""
        lines = []
        if self.snapshot:
            numbers = {"number": self.snapshot.number, "included": _format_count(self.snapshot.included)}
            line = ngettext(
                "Version %(number)d, from %(included)s judgement.",
                "Version %(number)d, from %(included)s judgements.",
                self.snapshot.included,
            )
            lines.append(line % numbers)
        if update_line := self._update_line():
            lines.append(update_line)
        return lines + ([] if self.pinned else self._retracted_lines())

    def _update_line(self) -> str:
        if self.pinned:
            line = self._pinned_and_behind() if self.behind else _("Created %(at)s.")
        elif self.behind:
            line = self._behind()
        else:
            line = _("Last update %(at)s.") if self.snapshot else ""
        return line % {"at": _format_time(self.updated_at), "behind": _format_count(self.behind)}

    def _pinned_and_behind(self) -> str:
        return ngettext(
            "Created %(at)s; %(behind)s newer judgement is not included.",
            "Created %(at)s; %(behind)s newer judgements are not included.",
            self.behind,
        )

    def _behind(self) -> str:
        if self.snapshot is None:
            return ngettext("%(behind)s judgement saved.", "%(behind)s judgements saved.", self.behind)
        return ngettext(
            "%(behind)s new judgement saved, not yet included; last update %(at)s.",
            "%(behind)s new judgements saved, not yet included; last update %(at)s.",
            self.behind,
        )

    def _retracted_lines(self) -> list[str]:
        if not (self.snapshot and self.retracted):
            return []
        line = ngettext(
            "%(count)s retracted judgement is still included.",
            "%(count)s retracted judgements are still included.",
            self.retracted,
        )
        return [line % {"count": _format_count(self.retracted)}]

    @property
    def pinned_lines(self) -> list[str]:
        """Sentences about the pinned version and the newest one; empty if no version is pinned."""
        if not (self.pinned and self.snapshot and self.newest):
            return []
        numbers = {"number": self.snapshot.number, "newest": self.newest.number}
        if self.newest == self.snapshot:
            line = _("Version %(number)d is pinned. The model keeps updating; newer versions are not shown.")
        else:
            line = _("Version %(number)d is pinned; the newest version is %(newest)d.")
        return [line % numbers, *self._retracted_since_pinned()]

    def _retracted_since_pinned(self) -> list[str]:
        if not self.retracted:
            return []
        line = ngettext(
            "%(count)s of its judgements has been retracted since.",
            "%(count)s of its judgements have been retracted since.",
            self.retracted,
        )
        return [line % {"count": _format_count(self.retracted)}]


def _format_count(number: int) -> str:
    return number_format(number, force_grouping=True)


def _format_time(at: datetime | None) -> str:
    """Format a time in UTC, without the date if it is today."""
    if at is None:
        return ""
    at = at.astimezone(UTC)
    return at.strftime("%H:%M UTC" if at.date() == timezone.now().date() else "%Y-%m-%d %H:%M UTC")


def get_freshness(project: Project) -> Freshness:
    """The version to show, and what was saved or retracted after it."""
    state = UpdateState.objects.filter(project=project).select_related("current", "pinned").first() or UpdateState()
    jobs = [kind.objects.filter(project=project).first() for kind in JOBS]
    pinned = get_pinned_snapshot(state) if state.current else None
    last = pinned.last_sequence if pinned else state.done_sequence
    [(_project, last_event, last_change)] = latest_changes([project.pk])
    behind, retracted = _count_since(project, last) if last_event > last else (0, 0)
    return Freshness(
        project=project,
        snapshot=pinned or state.current,
        newest=state.current,
        pinned=pinned is not None,
        last_event=last_event,
        behind=behind,
        retracted=retracted,
        condition=state.condition,
        message=translate_message(state.message, has_version=state.current is not None),
        progress=FitProgress.parse(state.progress),
        status_hash=status_hash(state, [job for job in jobs if job]),
        last_change=last_change,
    )


def latest_changes(project_ids: Sequence[int]) -> list[tuple[int, int, int]]:
    """Each project with its last event and its last audit entry."""
    entries = AuditEntry.objects.filter(project=OuterRef("project")).order_by("-pk").values("pk")[:1]
    heads = EventHead.objects.filter(project__in=project_ids).annotate(changed=Coalesce(Subquery(entries), 0))
    return list(heads.values_list("project", "sequence", "changed"))


def _count_since(project: Project, last: int) -> tuple[int, int]:
    """Valid judgements after this event, and retractions of judgements up to it."""
    new = Judgement.objects.answers().filter(project=project, sequence__gt=last)
    retracted = Retraction.objects.filter(project=project, sequence__gt=last, judgement__sequence__lte=last)
    return new.count(), retracted.filter(judgement__choice__in=list(PREFERENCE)).count()


def status_hash(state: UpdateState, jobs: Sequence[Job]) -> str:
    """Short hash of everything a page shows about the updater, for open pages to notice a change."""
    pointers = [state.current_id, state.pinned_id, state.done_sequence]
    job_states = [[job.pk, job.state, job.progress] for job in jobs]
    content = json.dumps([*pointers, state.condition, state.message, state.progress, job_states], sort_keys=True)
    return f"{crc32(content.encode()):08x}"
