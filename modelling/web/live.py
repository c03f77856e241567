"""Live updates: a WebSocket notifies open pages that something changed, and they fetch the changed part by HTTP.

Each web process has one watcher, started by its first socket and ended by its last. It polls the state of the watched
projects and sends changes to their channel groups, at most one message per second and project. Messages are hints: a
lost one is repeated by the next.
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
from channels.layers import get_channel_layer
from django.conf import settings
from django.contrib.auth import get_user
from django.db import DatabaseError
from redis.exceptions import RedisError

from annotation.http.access import Role, has_role
from annotation.models import Project
from modelling.dashboards.common.freshness import latest_changes, status_hash
from modelling.models import ExportJob, Job, SettingsSearch, UpdateState
from modelling.training.versions import get_shown_snapshot
from modelling.web.metrics import SOCKETS

log = logging.getLogger("concord.live")

POLL_SECONDS = 0.5
SEND_SECONDS = 1.0
RECHECK_SECONDS = 30.0
SOCKETS_PER_PROJECT = 500
SOCKETS_PER_USER = 5  # in each web process

# Close codes
FORBIDDEN, LOGGED_OUT, TOO_MANY = 4403, 4401, 4429
TEXT_NOT_ALLOWED, BYTES_NOT_ALLOWED, TRY_AGAIN_LATER = 1008, 1003, 1013

OUTAGE = (RedisError, DatabaseError, OSError)  # Redis or the database is unavailable for a while

ProjectState = dict[str, int | str]  # the JSON message: revision, labels, mark, changed


@dataclass(frozen=True)
class Subscription:
    """A user watching a project."""

    project_id: int
    user_id: int


class Watcher:
    """Counts sockets per project and user, and polls while there are any."""

    def __init__(self) -> None:
        self.sockets: Counter[int] = Counter()
        self.users: Counter[int] = Counter()
        self.last_sent: dict[int, tuple[ProjectState, float]] = {}
        self.task: asyncio.Task[None] | None = None
        self.failing = False

    def has_room_for(self, subscription: Subscription) -> bool:
        sockets, users = self.sockets[subscription.project_id], self.users[subscription.user_id]
        return sockets < SOCKETS_PER_PROJECT and users < SOCKETS_PER_USER

    def add(self, subscription: Subscription) -> None:
        SOCKETS.inc()
        self.sockets[subscription.project_id] += 1
        self.users[subscription.user_id] += 1
        if self.task is None or self.task.done():
            self.task = asyncio.get_running_loop().create_task(self._poll())

    def remove(self, subscription: Subscription) -> None:
        SOCKETS.dec()
        for counts, key in ((self.sockets, subscription.project_id), (self.users, subscription.user_id)):
            counts[key] -= 1
            if counts[key] <= 0:
                del counts[key]
        if subscription.project_id not in self.sockets:
            self.last_sent.pop(subscription.project_id, None)

    async def _poll(self) -> None:
        while self.sockets:
            try:
                for project_id, state in (await get_states(list(self.sockets))).items():
                    await self._send_if_changed(project_id, state)
                self.failing = False
            except OUTAGE as error:  # the next round tries again
                if not self.failing:
                    log.warning("live updates are interrupted: %s", type(error).__name__)
                self.failing = True
            await asyncio.sleep(POLL_SECONDS)

    async def _send_if_changed(self, project_id: int, state: ProjectState) -> None:
        """Send a changed state, and repeat an unchanged one now and then: permissions are checked on each message."""
        before, at = self.last_sent.get(project_id, ({}, 0.0))
        elapsed = time.monotonic() - at
        if (state != before and elapsed >= SEND_SECONDS) or elapsed >= RECHECK_SECONDS:
            self.last_sent[project_id] = (state, time.monotonic())
            await get_channel_layer().group_send(group_name(project_id), {"type": "project_state", **state})


watcher = Watcher()


class ProjectConsumer(AsyncJsonWebsocketConsumer):
    """The socket of an open page. It only sends; permissions are checked when it opens and with each message."""

    subscription: Subscription | None = None
    last_sent: tuple[ProjectState, float] = ({}, 0.0)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Release the subscription however the socket ends: `disconnect` is not called if the channel layer fails."""
        try:
            await super().__call__(scope, receive, send)
        except OUTAGE as error:  # the page reconnects later
            log.warning("a live page was disconnected: %s", type(error).__name__)
            with suppress(RuntimeError):
                await send({"type": "websocket.close", "code": TRY_AGAIN_LATER})
        finally:
            if self.subscription is not None:
                watcher.remove(self.subscription)

    async def connect(self) -> None:
        subscription = await self._authorize()
        if subscription is None:
            await self.close(FORBIDDEN)  # before accepting: 403 at the handshake
            return
        if not watcher.has_room_for(subscription):
            await self.accept()  # so that the page receives the close code
            await self.close(TOO_MANY)
            return
        watcher.add(subscription)
        self.subscription = subscription
        await self.channel_layer.group_add(group_name(subscription.project_id), self.channel_name)
        await self.accept()
        await self._send((await get_states([subscription.project_id]))[subscription.project_id])

    async def disconnect(self, code: int) -> None:
        if self.subscription is not None:
            await self.channel_layer.group_discard(group_name(self.subscription.project_id), self.channel_name)

    async def project_state(self, event: dict[str, Any]) -> None:
        """Forward a watcher's message. Each web process has a watcher, so the same one may arrive several times."""
        state = {name: value for name, value in event.items() if name != "type"}
        before, at = self.last_sent
        if state == before and time.monotonic() - at < RECHECK_SECONDS / 2:
            return
        if await self._authorize() is None:
            await self.close(LOGGED_OUT)
            return
        await self._send(state)

    async def _send(self, state: ProjectState) -> None:
        self.last_sent = (state, time.monotonic())
        await self.send_json(state)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None, **kwargs: Any) -> None:
        await self.close(BYTES_NOT_ALLOWED if bytes_data else TEXT_NOT_ALLOWED)

    @database_sync_to_async
    def _authorize(self) -> Subscription | None:
        """The project and user, if this session is still logged in and allowed to view the project."""
        user = get_user(_SessionRequest(self.scope["session"].session_key))  # type: ignore[arg-type]
        project = Project.objects.filter(slug=self.scope["url_route"]["kwargs"]["slug"]).first()
        allowed = project is not None and has_role(project.role_of(user), Role.VIEWER)
        return Subscription(project.pk, int(user.pk)) if project and allowed and user.pk else None


class _SessionRequest:
    """The part of a request that `get_user` needs, with a freshly loaded session."""

    def __init__(self, session_key: str | None) -> None:
        self.session = import_module(settings.SESSION_ENGINE).SessionStore(session_key)


def group_name(project_id: int) -> str:
    return f"project-{project_id}"


@database_sync_to_async
def get_states(project_ids: list[int]) -> dict[int, ProjectState]:
    """Each project's shown version, last event, last audit entry and updater status hash."""
    states = UpdateState.objects.filter(project__in=project_ids).select_related("current", "pinned")
    state_of = {state.project_id: state for state in states}
    jobs_of: dict[int, list[Job]] = defaultdict(list)
    for kind in (SettingsSearch, ExportJob):
        newest = {job.project_id: job for job in kind.objects.filter(project__in=project_ids).order_by("requested_at")}
        for pk, job in newest.items():
            jobs_of[pk].append(job)
    return {
        pk: {**_updater_state(state_of.get(pk, UpdateState()), jobs_of[pk]), "labels": last_event, "changed": changed}
        for pk, last_event, changed in latest_changes(project_ids)
    }


def _updater_state(state: UpdateState, jobs: list[Job]) -> ProjectState:
    shown = get_shown_snapshot(state)
    return {"revision": shown.number if shown else 0, "mark": status_hash(state, jobs)}
