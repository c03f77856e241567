"""The model settings page: the results of the last settings search."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils.translation import gettext as _

from annotation.models import Project
from modelling.models import SettingsSearch
from modelling.training.settings import ModelSettings, SettingRow, get_valid_settings, setting_rows

State = SettingsSearch.State


@dataclass(frozen=True)
class SearchCandidate:
    """One candidate of a search. `behind` is its loss minus the smallest loss."""

    key: str
    name: str
    loss: float
    behind: float
    percent_right: float | None
    changes: list[SettingRow]
    in_use: bool


@dataclass(frozen=True)
class SearchStatus:
    """The last settings search of a project."""

    state: str
    waiting: bool
    running: bool
    failed: bool
    done: int
    of: int | None
    message: str
    ended_at: datetime | None
    rows: list[SearchCandidate]

    @property
    def active(self) -> bool:
        return self.waiting or self.running


def search_status(project: Project) -> SearchStatus | None:
    search = SettingsSearch.objects.filter(project=project).first()
    if search is None:
        return None
    current = get_valid_settings(project)
    return SearchStatus(
        state=search.get_state_display(),
        waiting=search.state == State.WAITING,
        running=search.state == State.RUNNING,
        failed=search.state == State.FAILED,
        done=int(search.progress.get("done", 0)),
        of=search.progress.get("of"),
        message=_(search.message) if search.message else "",
        ended_at=search.ended_at,
        rows=[_candidate(row, search.table[0]["loss"], current) for row in search.table],
    )


def _candidate(row: dict[str, Any], best: float, current: ModelSettings) -> SearchCandidate:
    settings = ModelSettings.from_dict(row["settings"])
    right = row["accuracy"]
    return SearchCandidate(
        key=row["name"],
        name=_(row["name"]),
        loss=row["loss"],
        behind=row["loss"] - best,
        percent_right=None if right is None else 100 * right,
        changes=[row for row in setting_rows(settings, previous=current) if row.value != row.previous],
        in_use=settings == current,
    )
