"""Live updates: a WebSocket notifies open pages that something changed, and they fetch the changed part by HTTP.

Each web process has one watcher, started by its first socket and ended by its last. It polls the state of the watched
projects and hands changes to the open pages of its own process, at most one per second and project; no process depends
on another one or on Redis. Messages are hints: a page that is slow, or misses one, gets the newest state next.
"""

import asyncio
import logging
import time
from collections import Counter, defaultdict
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncJsonWebsocketConsumer
from django.conf import settings
from django.contrib.auth import get_user
from django.db import DatabaseError

from annotation.http.access import Role, has_role
from annotation.models import Project
from modelling.dashboards.common.freshness import JOBS, latest_changes, status_hash
from modelling.models import Job, UpdateState
from modelling.training.versions import get_shown_snapshot
from modelling.web.metrics import SOCKETS

log = logging.getLogger("concord.live")

POLL_SECONDS = 0.5
SEND_SECONDS = 1.0
REPEAT_SECONDS = 30.0  # an unchanged state is repeated, so that the page knows that the socket is alive
AUTHORIZE_SECONDS = 10.0  # how long a permission is relied on before it is checked again
SOCKETS_PER_PROJECT = 500  # in each web process
SOCKETS_PER_USER = 5  # in each web process

# Close codes
FORBIDDEN, LOGGED_OUT, TOO_MANY = 4403, 4401, 4429
TEXT_NOT_ALLOWED, BYTES_NOT_ALLOWED, TRY_AGAIN_LATER = 1008, 1003, 1013

ProjectState = dict[str, int | str]  # the JSON message: revision, labels, mark, changed


@dataclass(frozen=True)
class Subscription:
    """A user watching a project."""

    project_id: int
    user_id: int


class Watcher:
    """Tracks the open pages of this process, and polls for changes while there are any."""

    def __init__(self) -> None:
        self.pages: dict[int, set[ProjectConsumer]] = {}
        self.users: Counter[int] = Counter()
        self.last_sent: dict[int, tuple[ProjectState, float]] = {}
        self.task: asyncio.Task[None] | None = None
        self.failing = False

    def has_room_for(self, subscription: Subscription) -> bool:
        pages, of_user = self.pages.get(subscription.project_id, ()), self.users[subscription.user_id]
        return len(pages) < SOCKETS_PER_PROJECT and of_user < SOCKETS_PER_USER

    def add(self, page: "ProjectConsumer", subscription: Subscription) -> None:
        SOCKETS.inc()
        self.pages.setdefault(subscription.project_id, set()).add(page)
        self.users[subscription.user_id] += 1
        if self.task is None or self.task.done():
            self.task = asyncio.get_running_loop().create_task(self._poll())

    def remove(self, page: "ProjectConsumer", subscription: Subscription) -> None:
        SOCKETS.dec()
        self.users[subscription.user_id] -= 1
        self.users = +self.users
        self.pages[subscription.project_id].discard(page)
        if not self.pages[subscription.project_id]:
            del self.pages[subscription.project_id]
            self.last_sent.pop(subscription.project_id, None)

    async def _poll(self) -> None:
        while self.pages:
            try:
                for project_id, state in (await get_states(list(self.pages))).items():
                    self.notify_if_changed(project_id, state)
                self.failing = False
            except (DatabaseError, OSError) as error:  # the next round tries again
                if not self.failing:
                    log.warning("live updates are interrupted: %s", type(error).__name__)
                self.failing = True
            await asyncio.sleep(POLL_SECONDS)

    def notify_if_changed(self, project_id: int, state: ProjectState) -> None:
        before, at = self.last_sent.get(project_id, ({}, 0.0))
        elapsed = time.monotonic() - at
        if (state != before and elapsed >= SEND_SECONDS) or elapsed >= REPEAT_SECONDS:
            self.last_sent[project_id] = (state, time.monotonic())
            for page in self.pages.get(project_id, ()):
                page.notify(state)


watcher = Watcher()


class ProjectConsumer(AsyncJsonWebsocketConsumer):
    """The socket of an open page. It only sends, from a task of its own, so that a stuck page delays no other."""

    channel_layer_alias = "none"
    subscription: Subscription | None = None
    authorized_at = 0.0

    def __init__(self) -> None:
        super().__init__()
        self.state: ProjectState = {}
        self.changed = asyncio.Event()
        self.sending: asyncio.Task[None] | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Release the subscription however the socket ends."""
        try:
            await super().__call__(scope, receive, send)
        except (DatabaseError, OSError) as error:  # the page reconnects later
            log.warning("a live page was refused: %s", type(error).__name__)
            with suppress(RuntimeError):
                await send({"type": "websocket.close", "code": TRY_AGAIN_LATER})
        finally:
            if self.sending is not None:
                self.sending.cancel()
            if self.subscription is not None:
                watcher.remove(self, self.subscription)

    async def connect(self) -> None:
        subscription = await self._authorize()
        if subscription is None:
            await self.close(FORBIDDEN)  # before accepting: 403 at the handshake
            return
        if not watcher.has_room_for(subscription):
            await self.accept()  # so that the page receives the close code
            await self.close(TOO_MANY)
            return
        watcher.add(self, subscription)
        self.subscription = subscription
        first = (await get_states([subscription.project_id]))[subscription.project_id]
        watcher.last_sent.setdefault(subscription.project_id, (first, time.monotonic()))
        await self.accept()
        self.sending = asyncio.get_running_loop().create_task(self._send_states())
        self.notify(first)

    def notify(self, state: ProjectState) -> None:
        """Queue this state for sending, in place of an earlier one that has not been sent yet."""
        self.state = state
        self.changed.set()

    async def _send_states(self) -> None:
        while True:
            await self.changed.wait()
            self.changed.clear()
            try:
                if time.monotonic() - self.authorized_at >= AUTHORIZE_SECONDS and await self._authorize() is None:
                    await self.close(LOGGED_OUT)
                    return
                await self.send_json(self.state)
            except (DatabaseError, OSError) as error:
                log.warning("a live page was disconnected: %s", type(error).__name__)
                await self.close(TRY_AGAIN_LATER)
                return

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None, **kwargs: Any) -> None:
        await self.close(BYTES_NOT_ALLOWED if bytes_data else TEXT_NOT_ALLOWED)

    @database_sync_to_async
    def _authorize(self) -> Subscription | None:
        """The project and user, if this session is still logged in and allowed to view the project."""
        user = get_user(_SessionRequest(self.scope["session"].session_key))  # type: ignore[arg-type]
        project = Project.objects.filter(slug=self.scope["url_route"]["kwargs"]["slug"]).first()
        allowed = project is not None and has_role(project.role_of(user), Role.VIEWER)
        self.authorized_at = time.monotonic()
        return Subscription(project.pk, int(user.pk)) if project and allowed and user.pk else None


class _SessionRequest:
    """The part of a request that `get_user` needs, with a freshly loaded session."""

    def __init__(self, session_key: str | None) -> None:
        self.session = import_module(settings.SESSION_ENGINE).SessionStore(session_key)


@database_sync_to_async
def get_states(project_ids: list[int]) -> dict[int, ProjectState]:
    """Each project's shown version, last event, last audit entry and updater status hash."""
    states = UpdateState.objects.filter(project__in=project_ids).select_related("current", "pinned")
    state_of = {state.project_id: state for state in states}
    jobs_of: dict[int, list[Job]] = defaultdict(list)
    for kind in JOBS:
        jobs = kind.objects.filter(project__in=project_ids).order_by("requested_at")
        newest = {job.project_id: job for job in jobs}
        for pk, job in newest.items():
            jobs_of[pk].append(job)
    return {
        pk: {**_updater_state(state_of.get(pk, UpdateState()), jobs_of[pk]), "labels": last_event, "changed": changed}
        for pk, last_event, changed in latest_changes(project_ids)
    }


def _updater_state(state: UpdateState, jobs: list[Job]) -> ProjectState:
    shown = get_shown_snapshot(state)
    return {"revision": shown.number if shown else 0, "mark": status_hash(state, jobs)}
