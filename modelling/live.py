"""Tells open dashboards that a new version exists. Messages are hints: the page then fetches what it needs by HTTP.

One watcher in each web process, started by its first socket and ended by its last, looks twice a second at how far the
watched projects are; what changed goes to their groups, at most one message a second and project.
"""

import asyncio
import logging
import time
from collections import Counter
from importlib import import_module
from typing import Any

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncJsonWebsocketConsumer
from channels.layers import get_channel_layer
from django.conf import settings
from django.contrib.auth import get_user

from annotation.access import Role, may
from annotation.models import EventHead, Project
from modelling.models import UpdateState

log = logging.getLogger("concord.live")

POLL_SECONDS = 0.5
SEND_SECONDS = 1.0
RECHECK_SECONDS = 30.0
NOT_ALLOWED, LOGGED_OUT, NO_TALK, NO_BYTES = 4403, 4401, 1008, 1003
SOCKETS_PER_PROJECT = 500

Standing = dict[str, int]


class Watcher:
    """Counts the sockets of each project and polls while there are any."""

    def __init__(self) -> None:
        self.sockets: Counter[int] = Counter()
        self.told: dict[int, tuple[Standing, float]] = {}
        self.task: asyncio.Task[None] | None = None

    def watch(self, project_id: int) -> None:
        self.sockets[project_id] += 1
        if self.task is None or self.task.done():
            self.task = asyncio.get_running_loop().create_task(self._poll())

    def leave(self, project_id: int) -> None:
        self.sockets[project_id] -= 1
        if self.sockets[project_id] <= 0:
            del self.sockets[project_id]
            self.told.pop(project_id, None)

    async def _poll(self) -> None:
        while self.sockets:
            try:
                for project_id, standing in (await standings(list(self.sockets))).items():
                    await self._tell(project_id, standing)
            except Exception as error:  # the database or Redis is away for a while: the next round tries again
                log.warning("no live messages just now: %s", type(error).__name__)
            await asyncio.sleep(POLL_SECONDS)

    async def _tell(self, project_id: int, standing: Standing) -> None:
        """Sends what changed, and every so often the same again, so that rights are checked and lost hints repeated."""
        before, at = self.told.get(project_id, ({}, 0.0))
        quiet = time.monotonic() - at
        if (standing != before and quiet >= SEND_SECONDS) or quiet >= RECHECK_SECONDS:
            self.told[project_id] = (standing, time.monotonic())
            await get_channel_layer().group_send(group_name(project_id), {"type": "standing", **standing})


watcher = Watcher()


class ProjectConsumer(AsyncJsonWebsocketConsumer):
    """A researcher's open page. Listens only; rights are checked at the door and again while it is open."""

    project_id: int | None = None

    async def connect(self) -> None:
        slug = self.scope["url_route"]["kwargs"]["slug"]
        project_id = await self._allowed_project(slug)
        if project_id is None or watcher.sockets[project_id] >= SOCKETS_PER_PROJECT:
            await self.close(NOT_ALLOWED)
            return
        await self.channel_layer.group_add(group_name(project_id), self.channel_name)
        await self.accept()
        watcher.watch(project_id)
        self.project_id = project_id  # from here on leaving counts
        await self.send_json((await standings([project_id]))[project_id])

    async def disconnect(self, code: int) -> None:
        if self.project_id is not None:
            watcher.leave(self.project_id)
            await self.channel_layer.group_discard(group_name(self.project_id), self.channel_name)

    async def standing(self, event: dict[str, Any]) -> None:
        """A hint from the watcher."""
        if await self._allowed_project(self.scope["url_route"]["kwargs"]["slug"]) is None:
            await self.close(LOGGED_OUT)
            return
        await self.send_json({"revision": event["revision"], "labels": event["labels"]})

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None, **kwargs: Any) -> None:
        await self.close(NO_BYTES if bytes_data else NO_TALK)

    @database_sync_to_async
    def _allowed_project(self, slug: str) -> int | None:
        """The project's id, if this session is still logged in and may see it."""
        user = get_user(_Request(self.scope["session"].session_key))  # type: ignore[arg-type]
        project = Project.objects.filter(slug=slug).first()
        return project.pk if project and may(project.role_of(user), Role.VIEWER) else None


class _Request:
    """As much of a request as asking who is logged in takes; reads the session anew."""

    def __init__(self, session_key: str | None) -> None:
        self.session = import_module(settings.SESSION_ENGINE).SessionStore(session_key)


def group_name(project_id: int) -> str:
    return f"project-{project_id}"


@database_sync_to_async
def standings(project_ids: list[int]) -> dict[int, Standing]:
    """Of each project: the number of its current version and of its last event."""
    states = UpdateState.objects.filter(project__in=project_ids).values_list("project", "current__number")
    revisions = dict(states)
    heads = EventHead.objects.filter(project__in=project_ids).values_list("project", "sequence")
    return {pk: {"revision": revisions.get(pk) or 0, "labels": sequence} for pk, sequence in heads}
