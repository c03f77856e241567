"""Tells open dashboards that a new version exists. Messages are hints: the page then fetches what it needs by HTTP.

One watcher in each web process, started by its first socket and ended by its last, looks twice a second at how far the
watched projects are; what changed goes to their groups, at most one message a second and project.
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

from annotation.access import Role, may
from annotation.models import Project
from modelling.dashboards.freshness import heads, mark_of
from modelling.models import ExportJob, Job, SettingsSearch, UpdateState
from modelling.versions import shown_of

log = logging.getLogger("concord.live")

POLL_SECONDS = 0.5
SEND_SECONDS = 1.0
RECHECK_SECONDS = 30.0
NOT_ALLOWED, LOGGED_OUT, TOO_MANY, NO_TALK, NO_BYTES, TRY_LATER = 4403, 4401, 4429, 1008, 1003, 1013
AWAY = (RedisError, DatabaseError, OSError)  # what serves the messages is gone for a while
SOCKETS_PER_PROJECT = 500
SOCKETS_PER_PERSON = 5  # in each web process

Standing = dict[str, int | str]


class Watcher:
    """Counts the sockets of each project and person, and polls while there are any."""

    def __init__(self) -> None:
        self.sockets: Counter[int] = Counter()
        self.people: Counter[int] = Counter()
        self.told: dict[int, tuple[Standing, float]] = {}
        self.task: asyncio.Task[None] | None = None
        self.troubled = False

    def has_room_for(self, seat: "Seat") -> bool:
        return self.sockets[seat.project_id] < SOCKETS_PER_PROJECT and self.people[seat.user_id] < SOCKETS_PER_PERSON

    def watch(self, seat: "Seat") -> None:
        self.sockets[seat.project_id] += 1
        self.people[seat.user_id] += 1
        if self.task is None or self.task.done():
            self.task = asyncio.get_running_loop().create_task(self._poll())

    def leave(self, seat: "Seat") -> None:
        for counts, key in ((self.sockets, seat.project_id), (self.people, seat.user_id)):
            counts[key] -= 1
            if counts[key] <= 0:
                del counts[key]
        if seat.project_id not in self.sockets:
            self.told.pop(seat.project_id, None)

    async def _poll(self) -> None:
        while self.sockets:
            try:
                for project_id, standing in (await standings(list(self.sockets))).items():
                    await self._tell(project_id, standing)
                self.troubled = False
            except AWAY as error:  # the next round tries again
                if not self.troubled:
                    log.warning("no live messages just now: %s", type(error).__name__)
                self.troubled = True
            await asyncio.sleep(POLL_SECONDS)

    async def _tell(self, project_id: int, standing: Standing) -> None:
        """Sends what changed, and every so often the same again, so that rights are checked and lost hints repeated."""
        before, at = self.told.get(project_id, ({}, 0.0))
        quiet = time.monotonic() - at
        if (standing != before and quiet >= SEND_SECONDS) or quiet >= RECHECK_SECONDS:
            self.told[project_id] = (standing, time.monotonic())
            await get_channel_layer().group_send(group_name(project_id), {"type": "standing", **standing})


watcher = Watcher()


@dataclass(frozen=True)
class Seat:
    """Who watches what."""

    project_id: int
    user_id: int


class ProjectConsumer(AsyncJsonWebsocketConsumer):
    """A researcher's open page. Listens only; rights are checked at the door and again while it is open."""

    seat: Seat | None = None
    told: tuple[Standing, float] = ({}, 0.0)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """However it ends, the seat is free again: `disconnect` is not called when the channel layer breaks."""
        try:
            await super().__call__(scope, receive, send)
        except AWAY as error:  # the page opens another socket later
            log.warning("a live page was closed: %s", type(error).__name__)
            with suppress(RuntimeError):
                await send({"type": "websocket.close", "code": TRY_LATER})
        finally:
            if self.seat is not None:
                watcher.leave(self.seat)

    async def connect(self) -> None:
        seat = await self._allowed_seat()
        if seat is None or not watcher.has_room_for(seat):
            await self._turn_away(NOT_ALLOWED if seat is None else TOO_MANY)
            return
        watcher.watch(seat)
        self.seat = seat
        await self.channel_layer.group_add(group_name(seat.project_id), self.channel_name)
        await self.accept()
        await self._say((await standings([seat.project_id]))[seat.project_id])

    async def _turn_away(self, code: int) -> None:
        """Strangers get 403 at the handshake. A member with too many windows is let in to be told why."""
        if code == TOO_MANY:
            await self.accept()
        await self.close(code)

    async def disconnect(self, code: int) -> None:
        if self.seat is not None:
            await self.channel_layer.group_discard(group_name(self.seat.project_id), self.channel_name)

    async def standing(self, event: dict[str, Any]) -> None:
        """A hint from a watcher; each web process has one, so the same may come several times."""
        standing = {name: value for name, value in event.items() if name != "type"}
        before, at = self.told
        if standing == before and time.monotonic() - at < RECHECK_SECONDS / 2:
            return
        if await self._allowed_seat() is None:
            await self.close(LOGGED_OUT)
            return
        await self._say(standing)

    async def _say(self, standing: Standing) -> None:
        self.told = (standing, time.monotonic())
        await self.send_json(standing)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None, **kwargs: Any) -> None:
        await self.close(NO_BYTES if bytes_data else NO_TALK)

    @database_sync_to_async
    def _allowed_seat(self) -> Seat | None:
        """The project and the person, if this session is still logged in and may see it."""
        user = get_user(_Request(self.scope["session"].session_key))  # type: ignore[arg-type]
        project = Project.objects.filter(slug=self.scope["url_route"]["kwargs"]["slug"]).first()
        allowed = project is not None and may(project.role_of(user), Role.VIEWER)
        return Seat(project.pk, int(user.pk)) if project and allowed and user.pk else None


class _Request:
    """As much of a request as asking who is logged in takes; reads the session anew."""

    def __init__(self, session_key: str | None) -> None:
        self.session = import_module(settings.SESSION_ENGINE).SessionStore(session_key)


def group_name(project_id: int) -> str:
    return f"project-{project_id}"


@database_sync_to_async
def standings(project_ids: list[int]) -> dict[int, Standing]:
    """Of each project: the version its pages show, its last event, what people changed last, and a sign for what its
    pages say of the updater."""
    states = UpdateState.objects.filter(project__in=project_ids).select_related("current", "pinned")
    state_of = {state.project_id: state for state in states}
    jobs_of: dict[int, list[Job]] = defaultdict(list)
    for kind in (SettingsSearch, ExportJob):
        newest = {job.project_id: job for job in kind.objects.filter(project__in=project_ids).order_by("asked_at")}
        for pk, job in newest.items():
            jobs_of[pk].append(job)
    return {
        pk: {**_standing(state_of.get(pk, UpdateState()), jobs_of[pk]), "labels": labels, "changed": changed}
        for pk, labels, changed in heads(project_ids)
    }


def _standing(state: UpdateState, jobs: list[Job]) -> Standing:
    shown = shown_of(state)
    return {"revision": shown.number if shown else 0, "mark": mark_of(state, jobs)}
