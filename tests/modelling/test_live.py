"""The socket that says a new version exists: for members only, from our own pages only, and it listens to nobody."""

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from itertools import pairwise
from typing import Any

import pytest
import uvicorn
from asgiref.sync import sync_to_async
from asgiref.testing import ApplicationCommunicator
from channels.layers import InMemoryChannelLayer
from django.contrib.sessions.models import Session
from django.test import Client
from redis.exceptions import ConnectionError as RedisConnectionError
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from annotation.models import Membership, Project, User
from config.asgi import application
from modelling import live
from modelling.management.commands.serve import web_config
from modelling.models import ModelSnapshot, UpdateState
from tests.conftest import run_apart
from tests.drills.waiting import wait_until

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


def socket(client: Client | None = None, origin: str | None = ORIGIN, slug: str = "pets", path: str = "") -> Socket:
    headers = [(b"host", b"testserver")]
    if origin is not None:
        headers.append((b"origin", origin.encode()))
    if client is not None:
        headers.append((b"cookie", f"sessionid={client.cookies['sessionid'].value}".encode()))
    scope = {
        "type": "websocket",
        "path": path or f"/ws/projects/{slug}/",
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


@pytest.mark.parametrize("path", ["/ws/", "/ws/projects/", "/nowhere"])
def test_an_address_without_a_socket_is_turned_away_like_any_other(
    path: str, project: Project, viewer: User, log_in: Callable[[User], Client]
) -> None:
    assert not connects(socket(log_in(viewer), path=path))


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


def test_a_sixth_window_is_told_that_there_are_too_many_and_gets_in_when_one_is_closed(
    project: Project, viewer: User, owner: User, log_in: Callable[[User], Client]
) -> None:
    client, other = log_in(viewer), log_in(owner)

    async def story() -> int:
        windows = [socket(client) for _ in range(live.SOCKETS_PER_PERSON)]
        for window in windows:
            assert await window.connect()
        sixth = socket(client)
        assert await sixth.connect()
        refusal = await sixth.receive_output(timeout=10)
        assert await connected_and_left(socket(other)), "others are not affected"
        await windows[0].disconnect()
        assert await connected_and_left(socket(client))
        for window in windows[1:]:
            await window.disconnect()
        assert not live.watcher.people
        return int(refusal["code"])

    assert run(story) == live.TOO_MANY


async def connected_and_left(communicator: Socket) -> bool:
    """Whether this socket was let in and told something."""
    connected = await communicator.connect()
    told = await communicator.receive_output(timeout=10)
    await communicator.disconnect()
    return connected and told["type"] == "websocket.send"


class BrokenLayer(InMemoryChannelLayer):
    """A channel layer whose server is away."""

    async def group_add(self, group: str, channel: str) -> None:
        raise RedisConnectionError("away")


def test_while_redis_is_away_nobody_is_let_in_and_no_seat_is_lost(
    project: Project, viewer: User, log_in: Callable[[User], Client], settings: Any
) -> None:
    client = log_in(viewer)
    settings.CHANNEL_LAYERS = {"default": {"BACKEND": "tests.modelling.test_live.BrokenLayer"}}

    async def story() -> bool:
        let_in = [await socket(client).connect() for _ in range(2 * live.SOCKETS_PER_PERSON)]
        return any(let_in) or bool(live.watcher.people) or bool(live.watcher.sockets)

    assert run(story) is False


def test_what_is_told_changes_with_progress_condition_and_pin(project: Project) -> None:
    facts = {"kind": "refit", "first_sequence": 1, "last_sequence": 1, "inputs_revision": 0, "included": 1}
    snapshots = [
        ModelSnapshot.objects.create(project=project, number=number, seed=0, seconds=0.1, **facts) for number in (1, 2)
    ]
    UpdateState.objects.create(project=project, current=snapshots[1])
    changes: list[dict[str, Any]] = [
        {"progress": {"what": "fitting", "share": 0.5}},
        {"condition": "degraded", "words": "The disk is full."},
        {"pinned": snapshots[0]},
    ]
    told = [run_apart(live.standings([project.pk]))[project.pk]]
    for change in changes:
        UpdateState.objects.update(**change)
        told.append(run_apart(live.standings([project.pk]))[project.pk])
    assert len({standing["mark"] for standing in told}) == 4
    assert [standing["revision"] for standing in told] == [2, 2, 2, 1]


def test_a_busy_fit_sends_at_most_one_message_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten polls in three seconds, each with other progress: the first, and then one a second."""
    sent: list[float] = []
    now = [100.0]

    class Layer:
        async def group_send(self, group: str, message: dict[str, Any]) -> None:
            sent.append(now[0])

    monkeypatch.setattr(live, "get_channel_layer", Layer)
    monkeypatch.setattr(live.time, "monotonic", lambda: now[0])

    async def story() -> None:
        watcher = live.Watcher()
        for poll in range(30):
            await watcher._tell(1, {"revision": 1, "labels": 0, "mark": str(poll)})
            now[0] += 0.1

    run_apart(story())
    assert len(sent) == 3
    assert all(later - earlier >= live.SEND_SECONDS - 1e-6 for earlier, later in pairwise(sent))


# A real server, as `serve` sets it up


@pytest.fixture
def door(transactional_db: None) -> Iterator[int]:
    """The port of pages and sockets served as `manage.py serve` does."""
    config = web_config()
    config.port = 0
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    wait_until(lambda: server.started, 30, "the server did not start")
    yield server.servers[0].sockets[0].getsockname()[1]
    server.should_exit = True
    thread.join(timeout=20)


def call(port: int, client: Client | None, origin: str | None = "", slug: str = "pets") -> ClientConnection:
    """A browser's socket; `origin` is that of our own page unless another or None is given."""
    cookies = {"Cookie": f"sessionid={client.cookies['sessionid'].value}"} if client else {}
    own = f"http://127.0.0.1:{port}" if origin == "" else origin
    address = f"ws://127.0.0.1:{port}/ws/projects/{slug}/"
    return connect(address, origin=own, additional_headers=cookies, open_timeout=30, close_timeout=5, proxy=None)


@pytest.mark.parametrize("origin", [None, "http://evil.example", "https://127.0.0.1", "null"])
def test_at_the_handshake_a_foreign_or_absent_origin_is_forbidden(
    door: int, project: Project, owner: User, log_in: Callable[[User], Client], origin: str | None
) -> None:
    with pytest.raises(InvalidStatus) as refused:
        call(door, log_in(owner), origin)
    assert refused.value.response.status_code == 403


def test_at_the_handshake_a_foreign_project_and_a_stranger_are_forbidden(
    door: int, project: Project, owner: User, stranger: User, log_in: Callable[[User], Client]
) -> None:
    for client, slug in ((log_in(owner), "elsewhere"), (log_in(stranger), "pets"), (None, "pets")):
        with pytest.raises(InvalidStatus) as refused:
            call(door, client, slug=slug)
        assert refused.value.response.status_code == 403


@pytest.mark.parametrize(
    ("said", "code"),
    [
        (b"\x00\xff", 1003),
        ("x" * 1_000_000, 1009),
        (b"x" * 1_000_000, 1009),
        ("{not json", 1008),
        ('{"revision": 1}', 1008),
    ],
    ids=["binary", "a megabyte", "a megabyte of bytes", "no JSON", "JSON"],
)
def test_a_socket_that_says_anything_is_closed_with_its_reason(
    door: int, project: Project, owner: User, log_in: Callable[[User], Client], said: str | bytes, code: int
) -> None:
    with call(door, log_in(owner)) as browser:
        browser.recv(timeout=20)
        with suppress(ConnectionClosed):
            browser.send(said)
        assert closed_with(browser) == code


def test_a_thousand_messages_are_answered_by_one_closing(
    door: int, project: Project, owner: User, log_in: Callable[[User], Client]
) -> None:
    client = log_in(owner)
    with call(door, client) as browser:
        browser.recv(timeout=20)
        with suppress(ConnectionClosed):
            for number in range(1000):
                browser.send(f'{{"n": {number}}}')
        assert closed_with(browser) == live.NO_TALK
    with call(door, client) as again:
        assert json.loads(again.recv(timeout=20))["revision"] == 0


def closed_with(browser: ClientConnection) -> int | None:
    """The code with which the server closed this socket."""
    with suppress(ConnectionClosed):
        while True:
            browser.recv(timeout=20)
    return browser.close_code


def test_after_log_out_the_socket_is_closed_within_a_minute_and_says_nothing_more(
    door: int, project: Project, owner: User, log_in: Callable[[User], Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Quiet as the project is, rights are asked again every half minute: here, every half second."""
    assert live.RECHECK_SECONDS + live.POLL_SECONDS <= 60
    monkeypatch.setattr(live, "RECHECK_SECONDS", 0.5)
    client = log_in(owner)
    with call(door, client) as browser:
        browser.recv(timeout=20)
        client.post("/accounts/logout/")
        UpdateState.objects.create(project=project, words="a secret")
        with pytest.raises(ConnectionClosed):
            browser.recv(timeout=20)
        assert browser.close_code == live.LOGGED_OUT
