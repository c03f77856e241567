"""Run long updates in a child process, so that other projects never wait for them.

The updater claims the project, starts the child under the same lease and extends that lease while the child lives, even
while the child is inside one long call to LAPACK. A killed child's lease is expired, and its memory is returned to the
system. A child ends when its parent does.
"""

import subprocess
import sys
from threading import Thread

from django.conf import settings
from django.db import connection

from annotation.models import Item, Project
from modelling.models import LeasedRow, ModelSnapshot, UpdateState
from modelling.training.inputs import get_read_point
from modelling.training.settings import InvalidSettings, ModelSettings
from modelling.updater import leases
from modelling.updater.update import can_step

LONG_SECONDS = 5.0  # of CPU time, because on a busy machine even short updates take a long time
FIT_EVENTS, FIT_ITEMS = 20_000, 500  # larger studies are fitted from scratch in the child
STEP_ITEMS = 2000  # until a step has been measured, larger studies are updated in the child
Kind = ModelSnapshot.Kind


class LongUpdates:
    """Runs long updates in a child process, one at a time."""

    def __init__(self) -> None:
        self._thread: Thread | None = None

    @property
    def busy(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def start(self, row: LeasedRow, project: Project, *flags: str) -> None:
        """Start a child process that works on a leased row of this project."""
        arguments = ("--project", project.slug, "--lease", row.owner, *flags)
        self._thread = Thread(target=run_child, args=(row, arguments), daemon=True)
        self._thread.start()


def run_child(row: LeasedRow, arguments: tuple[str, ...]) -> None:
    """Run `update_models` in a child process and extend the lease until it ends; expire the lease if it fails."""
    command = [sys.executable, str(settings.BASE_DIR / "manage.py"), "update_models", "--with-parent", "--nice", "0"]
    try:
        with (
            leases.extending(row),
            subprocess.Popen([*command, *arguments], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as child,  # noqa: S603
        ):
            if child.wait():
                leases.expire(row)  # the child was killed
    finally:
        connection.close()


def takes_long(state: UpdateState) -> bool:
    """Whether the project's next update is expected to take long, judging by the last one like it or by its size."""
    parent, read = state.current, get_read_point(state.project)
    try:
        model_settings = ModelSettings.from_dict(state.project.model_settings)
    except InvalidSettings:
        return False  # the update reports it
    expected = parent.included + read.sequence - parent.last_sequence if parent else 0
    if parent is None or not can_step(parent, read, expected, model_settings):
        return fit_takes_long(state.project)
    last = ModelSnapshot.objects.filter(project=state.project, kind=Kind.STEP).first()
    return _took_long(last) if last else _has_more_items(state.project, STEP_ITEMS)


def fit_takes_long(project: Project) -> bool:
    """Whether a fit from scratch is expected to take long."""
    last = ModelSnapshot.objects.filter(project=project, kind=Kind.REFIT).first()
    if get_read_point(project).sequence > FIT_EVENTS or (last is not None and _took_long(last)):
        return True
    return _has_more_items(project, FIT_ITEMS)


def _took_long(snapshot: ModelSnapshot) -> bool:
    """Whether a version's update took long; versions of earlier releases have wall-clock seconds only."""
    return float(snapshot.diagnostics.get("cpu_seconds", snapshot.seconds)) > LONG_SECONDS


def _has_more_items(project: Project, count: int) -> bool:
    return Item.objects.filter(project=project)[count : count + 1].exists()
