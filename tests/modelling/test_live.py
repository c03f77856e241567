"""The socket that says a new version exists: for members only, from our own pages only, and it listens to nobody."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from asgiref.testing import ApplicationCommunicator
from django.contrib.sessions.models import Session
from django.test import Client

from annotation.models import Membership, Project, User
from config.asgi import application
from modelling import live
from modelling.models import ModelSnapshot, UpdateState
from tests.conftest import run_apart

pytestmark = pytest.mark.django_db(transaction=True)

ORIGIN = "http://testserver"


class Socket(ApplicationCommunicator):
    """A browser's end of a WebSocket."""

    async def connect(self) -> bool:
        """Whether the server let us in."""
        await self.send_input({"type": "websocket.connect"})
        return (await self.receive_output(timeout=10))["type"] == "websocket.accept"

    async def told(self) -> dict[str, int]:
        message = await self.receive_output(timeout=10)
        return json.loads(message["text"])

    async def disconnect(self) -> None:
        await self.send_input({"type": "websocket.disconnect", "code": 1000})
        await self.wait(timeout=10)


def socket(client: Client | None = None, origin: str | None = ORIGIN, slug: str = "pets") -> Socket:
    headers = [(b"host", b"testserver")]
    if origin is not None:
        headers.append((b"origin", origin.encode()))
    if client is not None:
        headers.append((b"cookie", f"sessionid={client.cookies['sessionid'].value}".encode()))
    scope = {
        "type": "websocket",
        "path": f"/ws/projects/{slug}/",
        "headers": headers,
        "query_string": b"",
        "subprotocols": [],
    }
    return Socket(application, scope)


def run(story: Callable[[], Awaitable[Any]]) -> Any:
    async def told() -> Any:
        live.watcher = live.Watcher()
        return await story()

    return run_apart(told())


def connects(communicator: Socket) -> bool:
    async def story() -> bool:
        connected = await communicator.connect()
        await communicator.disconnect()
        return connected

    return bool(run(story))


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in {"POLL_SECONDS": 0.01, "SEND_SECONDS": 0.0, "RECHECK_SECONDS": 0.05}.items():
        monkeypatch.setattr(live, name, seconds)


def test_a_member_is_let_in_and_told_where_the_project_stands(
    project: Project, viewer: User, log_in: Callable[[User], Client]
) -> None:
    communicator = socket(log_in(viewer))

    async def story() -> Any:
        assert await communicator.connect()
        told = await communicator.told()
        await communicator.disconnect()
        return told

    told = run(story)
    assert (told["revision"], told["labels"], len(told["mark"])) == (0, 0, 8)


@pytest.mark.parametrize(
    "origin",
    [None, "http://evil.example", "https://testserver", "http://testserver:8080", "null", "http://testserver.evil"],
)
def test_a_page_of_another_origin_is_turned_away(
    project: Project, owner: User, log_in: Callable[[User], Client], origin: str | None
) -> None:
    assert not connects(socket(log_in(owner), origin=origin))


def test_strangers_and_the_unknown_are_turned_away(
    project: Project, stranger: User, owner: User, log_in: Callable[[User], Client]
) -> None:
    assert not connects(socket(None))
    assert not connects(socket(log_in(stranger)))
    assert not connects(socket(log_in(owner), slug="no-such-project"))


def test_a_new_version_is_announced(
    project: Project, viewer: User, log_in: Callable[[User], Client], quick: None
) -> None:
    communicator = socket(log_in(viewer))

    def publish() -> None:
        facts = {"kind": "refit", "first_sequence": 1, "last_sequence": 1, "inputs_revision": 0, "included": 1}
        snapshot = ModelSnapshot.objects.create(project=project, number=7, seed=0, seconds=0.1, **facts)
        UpdateState.objects.create(project=project, current=snapshot)

    async def story() -> int:
        await communicator.connect()
        await sync_to_async(publish)()
        revision = 0
        while revision != 7:
            revision = (await communicator.told())["revision"]
        await communicator.disconnect()
        return revision

    assert run(story) == 7


@pytest.mark.parametrize("loss", ["logged out", "removed from the project"])
def test_a_right_that_is_lost_closes_the_socket(
    project: Project, viewer: User, log_in: Callable[[User], Client], quick: None, loss: str
) -> None:
    communicator = socket(log_in(viewer))

    def lose() -> None:
        (Session.objects if loss == "logged out" else Membership.objects.filter(user=viewer)).all().delete()

    async def story() -> int:
        await communicator.connect()
        await sync_to_async(lose)()
        while True:
            message = await communicator.receive_output(timeout=10)
            if message["type"] == "websocket.close":
                return int(message["code"])

    assert run(story) == live.LOGGED_OUT


@pytest.mark.parametrize(("said", "code"), [({"text": "hello"}, 1008), ({"bytes": b"\0"}, 1003)])
def test_a_socket_that_talks_is_closed(
    project: Project, viewer: User, log_in: Callable[[User], Client], said: dict[str, Any], code: int
) -> None:
    communicator = socket(log_in(viewer))

    async def story() -> int:
        await communicator.connect()
        await communicator.told()
        await communicator.send_input({"type": "websocket.receive", **said})
        message = await communicator.receive_output(timeout=10)
        return int(message["code"])

    assert run(story) == code


def test_the_watcher_ends_with_the_last_socket(
    project: Project, viewer: User, log_in: Callable[[User], Client], quick: None
) -> None:
    communicator = socket(log_in(viewer))

    async def story() -> bool:
        await communicator.connect()
        await communicator.disconnect()
        task = live.watcher.task
        assert task is not None
        await asyncio.wait_for(task, timeout=10)
        return not live.watcher.sockets

    assert run(story)
