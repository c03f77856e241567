"""“Choose for me” on the page: how far the search is, and what each candidate lost, best first."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils.translation import gettext as _

from annotation.models import Project
from modelling.forms import Explained, explained, legal_settings
from modelling.model_settings import ModelSettings
from modelling.models import SettingsSearch

State = SettingsSearch.State


@dataclass(frozen=True)
class Tried:
    """One candidate. `behind` is how much more it loses than the best."""

    key: str
    name: str
    loss: float
    behind: float
    percent_right: float | None
    changes: list[Explained]
    in_use: bool


@dataclass(frozen=True)
class SearchPart:
    """The last search of a project, or none yet."""

    state: str
    waiting: bool
    running: bool
    failed: bool
    done: int
    of: int | None
    words: str
    ended_at: datetime | None
    rows: list[Tried]

    @property
    def active(self) -> bool:
        return self.waiting or self.running


def search_part(project: Project) -> SearchPart | None:
    search = SettingsSearch.objects.filter(project=project).first()
    if search is None:
        return None
    now = legal_settings(project)
    return SearchPart(
        state=search.get_state_display(),
        waiting=search.state == State.WAITING,
        running=search.state == State.RUNNING,
        failed=search.state == State.FAILED,
        done=int(search.progress.get("done", 0)),
        of=search.progress.get("of"),
        words=_(search.words) if search.words else "",
        ended_at=search.ended_at,
        rows=[_tried(row, search.table[0]["loss"], now) for row in search.table],
    )


def _tried(row: dict[str, Any], best: float, now: ModelSettings) -> Tried:
    settings = ModelSettings.of(row["settings"])
    right = row["accuracy"]
    return Tried(
        key=row["name"],
        name=_(row["name"]),
        loss=row["loss"],
        behind=row["loss"] - best,
        percent_right=None if right is None else 100 * right,
        changes=[line for line in explained(settings, instead_of=now) if line.value != line.before],
        in_use=settings == now,
    )
