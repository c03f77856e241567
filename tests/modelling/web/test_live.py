"""The WebSocket of live pages: for members only, from our own origin only, and it accepts no messages."""

import asyncio
import json
import uuid
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from itertools import pairwise
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from asgiref.testing import ApplicationCommunicator
from django.contrib.sessions.models import Session
from django.db import DatabaseError
from django.test import Client
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from annotation import services
from annotation.models import Membership, Project, User, Worker
from annotation.services.participation.outcomes import end_participation
from config.asgi import application
from modelling.management.commands.serve import web_config
from modelling.models import ModelSnapshot, UpdateState
from modelling.web import live
from tests.annotation.platforms.studies import CODES, recruit
from tests.conftest import run_in_thread
from tests.helpers.serving import running

pytestmark = pytest.mark.django_db(transaction=True)

ORIGIN = "http://testserver"


class Socket(ApplicationCommunicator):
    """A browser's end of a WebSocket."""

    async def connect(self) -> bool:
        """Return whether the server accepted the connection."""
        await self.send_input({"type": "websocket.connect"})
        return (await self.receive_output(timeout=120))["type"] == "websocket.accept"

    async def receive_state(self) -> dict[str, int]:
        message = await self.receive_output(timeout=120)
        return json.loads(message["text"])

    async def disconnect(self) -> None:
        await self.send_input({"type": "websocket.disconnect", "code": 1000})
        await self.wait(timeout=120)


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


def run(scenario: Callable[[], Awaitable[Any]]) -> Any:
    async def with_new_watcher() -> Any:
        live.watcher = live.Watcher()
        return await scenario()

    return run_in_thread(with_new_watcher())


def connects(communicator: Socket) -> bool:
    async def scenario() -> bool:
        connected = await communicator.connect()
        await communicator.disconnect()
        return connected

    return bool(run(scenario))


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in {
        "POLL_SECONDS": 0.01,
        "SEND_SECONDS": 0.0,
        "REPEAT_SECONDS": 0.05,
        "AUTHORIZE_SECONDS": 0.0,
    }.items():
        monkeypatch.setattr(live, name, seconds)


def test_a_member_connects_and_receives_the_project_state(
    project: Project, viewer: User, log_in: Callable[[User], Client]
) -> None:
    communicator = socket(log_in(viewer))

    async def scenario() -> Any:
        assert await communicator.connect()
        state = await communicator.receive_state()
        await communicator.disconnect()
        return state

    state = run(scenario)
    assert (state["revision"], state["labels"], len(state["mark"])) == (0, 0, 8)


def test_no_message_contains_a_completion_code(
    project: Project, owner: User, log_in: Callable[[User], Client], quick: None
) -> None:
    """Owners watch while a worker ends the participation; their messages contain no code either."""
    recruit(project)
    worker, communicator = services.enrol(project=project), socket(log_in(owner))

    async def scenario() -> list[str]:
        assert await communicator.connect()
        texts = [str(await communicator.receive_state())]
        await sync_to_async(judge_once)(worker)
        await sync_to_async(end_participation)(worker=worker, outcome="finished")
        texts.append(str(await communicator.receive_state()))
        await communicator.disconnect()
        return texts

    texts = run(scenario)
    assert len(texts) == 2
    assert not [code for code in CODES.values() for text in texts if code in text]


def judge_once(worker: Worker) -> None:
    lease = services.lease_pairs(worker=worker, rng=Random(1))[0]
    services.record_judgement(worker=worker, uuid=uuid.uuid4(), assignment=lease.public_id, choice="left")


@pytest.mark.parametrize("path", ["/ws/", "/ws/projects/", "/nowhere"])
def test_an_unknown_path_is_refused(
    path: str, project: Project, viewer: User, log_in: Callable[[User], Client]
) -> None:
    assert not connects(socket(log_in(viewer), path=path))


@pytest.mark.parametrize(
    "origin",
    [None, "http://evil.example", "https://testserver", "http://testserver:8080", "null", "http://testserver.evil"],
)
def test_another_origin_is_refused(
    project: Project, owner: User, log_in: Callable[[User], Client], origin: str | None
) -> None:
    assert not connects(socket(log_in(owner), origin=origin))


def test_strangers_and_unknown_projects_are_refused(
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

    async def scenario() -> int:
        await communicator.connect()
        await sync_to_async(publish)()
        revision = 0
        while revision != 7:
            revision = (await communicator.receive_state())["revision"]
        await communicator.disconnect()
        return revision

    assert run(scenario) == 7


@pytest.mark.parametrize("loss", ["logged out", "removed from the project"])
def test_a_lost_permission_closes_the_socket(
    project: Project, viewer: User, log_in: Callable[[User], Client], quick: None, loss: str
) -> None:
    communicator = socket(log_in(viewer))

    def lose() -> None:
        (Session.objects if loss == "logged out" else Membership.objects.filter(user=viewer)).all().delete()

    async def scenario() -> int:
        await communicator.connect()
        await sync_to_async(lose)()
        while True:
            message = await communicator.receive_output(timeout=120)
            if message["type"] == "websocket.close":
                return int(message["code"])

    assert run(scenario) == live.LOGGED_OUT


@pytest.mark.parametrize(("message", "code"), [({"text": "hello"}, 1008), ({"bytes": b"\0"}, 1003)])
def test_a_client_that_sends_is_disconnected(
    project: Project, viewer: User, log_in: Callable[[User], Client], message: dict[str, Any], code: int
) -> None:
    communicator = socket(log_in(viewer))

    async def scenario() -> int:
        await communicator.connect()
        await communicator.receive_state()
        await communicator.send_input({"type": "websocket.receive", **message})
        response = await communicator.receive_output(timeout=120)
        return int(response["code"])

    assert run(scenario) == code


def test_the_watcher_ends_with_the_last_socket(
    project: Project, viewer: User, log_in: Callable[[User], Client], quick: None
) -> None:
    communicator = socket(log_in(viewer))

    async def scenario() -> bool:
        await communicator.connect()
        await communicator.disconnect()
        task = live.watcher.task
        assert task is not None
        await asyncio.wait_for(task, timeout=120)
        return not live.watcher.pages

    assert run(scenario)


def test_a_sixth_window_is_refused_until_another_one_closes(
    project: Project, viewer: User, owner: User, log_in: Callable[[User], Client]
) -> None:
    client, other = log_in(viewer), log_in(owner)

    async def scenario() -> int:
        windows = [socket(client) for _ in range(live.SOCKETS_PER_USER)]
        for window in windows:
            assert await window.connect()
        sixth = socket(client)
        assert await sixth.connect()
        refusal = await sixth.receive_output(timeout=120)
        assert await connects_and_receives(socket(other)), "others are not affected"
        await windows[0].disconnect()
        assert await connects_and_receives(socket(client))
        for window in windows[1:]:
            await window.disconnect()
        assert not live.watcher.users
        return int(refusal["code"])

    assert run(scenario) == live.TOO_MANY


async def connects_and_receives(communicator: Socket) -> bool:
    connected = await communicator.connect()
    state = await communicator.receive_output(timeout=120)
    await communicator.disconnect()
    return connected and state["type"] == "websocket.send"


def test_connections_are_refused_and_not_counted_while_the_database_is_down(
    project: Project, viewer: User, log_in: Callable[[User], Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(project_ids: list[int]) -> None:
        raise DatabaseError

    client = log_in(viewer)
    monkeypatch.setattr(live, "get_states", fail)

    async def scenario() -> bool:
        accepted = [await socket(client).connect() for _ in range(2 * live.SOCKETS_PER_USER)]
        return any(accepted) or bool(live.watcher.users) or bool(live.watcher.pages)

    assert run(scenario) is False


def test_a_stuck_page_delays_no_other_and_gets_only_the_newest_state(
    project: Project, viewer: User, owner: User, log_in: Callable[[User], Client], quick: None
) -> None:
    async def scenario() -> list[str]:
        stuck, other = live.ProjectConsumer(), live.ProjectConsumer()
        unstuck, to_stuck, to_other = asyncio.Event(), asyncio.Queue[str](), asyncio.Queue[str]()

        async def wait_then_send(state: dict[str, Any]) -> None:
            await unstuck.wait()
            to_stuck.put_nowait(state["mark"])

        async def send(state: dict[str, Any]) -> None:
            to_other.put_nowait(state["mark"])

        for page, way in ((stuck, wait_then_send), (other, send)):
            page.send_json, page.authorized_at = way, float("inf")  # type: ignore[method-assign]
            live.watcher.pages.setdefault(1, set()).add(page)
            page.sending = asyncio.create_task(page._send_states())
        for number in range(4):
            live.watcher.notify_if_changed(1, {"revision": number, "mark": str(number)})
            assert await asyncio.wait_for(to_other.get(), 120) == str(number)
        unstuck.set()
        sent = [await asyncio.wait_for(to_stuck.get(), 120)]
        while sent[-1] != "3":
            sent.append(await asyncio.wait_for(to_stuck.get(), 120))
        for page in (stuck, other):
            page.sending.cancel()
        return sent

    assert run(scenario) in (["3"], ["0", "3"])


def test_the_state_changes_with_progress_condition_and_pin(project: Project) -> None:
    facts = {"kind": "refit", "first_sequence": 1, "last_sequence": 1, "inputs_revision": 0, "included": 1}
    snapshots = [
        ModelSnapshot.objects.create(project=project, number=number, seed=0, seconds=0.1, **facts) for number in (1, 2)
    ]
    UpdateState.objects.create(project=project, current=snapshots[1])
    changes: list[dict[str, Any]] = [
        {"progress": {"what": "fitting", "share": 0.5}},
        {"condition": "degraded", "message": "The disk is full."},
        {"pinned": snapshots[0]},
    ]
    states = [run_in_thread(live.get_states([project.pk]))[project.pk]]
    for change in changes:
        UpdateState.objects.update(**change)
        states.append(run_in_thread(live.get_states([project.pk]))[project.pk])
    assert len({state["mark"] for state in states}) == 4
    assert [state["revision"] for state in states] == [2, 2, 2, 1]


def test_at_most_one_message_per_second_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thirty polls in three seconds, each with a new state."""
    sent: list[float] = []
    now = [100.0]
    monkeypatch.setattr(live, "time", SimpleNamespace(monotonic=lambda: now[0]))  # not the event loop's clock
    watcher, page = live.Watcher(), live.ProjectConsumer()
    watcher.pages = {1: {page}}
    monkeypatch.setattr(page, "notify", lambda state: sent.append(now[0]))
    for poll in range(30):
        watcher.notify_if_changed(1, {"revision": 1, "labels": 0, "mark": str(poll)})
        now[0] += 0.1
    assert len(sent) == 3
    assert all(later - earlier >= live.SEND_SECONDS - 1e-6 for earlier, later in pairwise(sent))


# With a real server, configured as by `manage.py serve`


@pytest.fixture
def port(transactional_db: None) -> Iterator[int]:
    """The port of a running server."""
    with running(web_config()) as port:
        yield port


def open_socket(port: int, client: Client | None, origin: str | None = "", slug: str = "pets") -> ClientConnection:
    """Connect like a browser, by default from our own origin."""
    cookies = {"Cookie": f"sessionid={client.cookies['sessionid'].value}"} if client else {}
    own = f"http://127.0.0.1:{port}" if origin == "" else origin
    address = f"ws://127.0.0.1:{port}/ws/projects/{slug}/"
    return connect(address, origin=own, additional_headers=cookies, open_timeout=120, close_timeout=60, proxy=None)


@pytest.mark.parametrize("origin", [None, "http://evil.example", "https://127.0.0.1", "null"])
def test_the_handshake_refuses_a_foreign_or_missing_origin(
    port: int, project: Project, owner: User, log_in: Callable[[User], Client], origin: str | None
) -> None:
    with pytest.raises(InvalidStatus) as refused:
        open_socket(port, log_in(owner), origin)
    assert refused.value.response.status_code == 403


def test_the_handshake_refuses_other_projects_and_strangers(
    port: int, project: Project, owner: User, stranger: User, log_in: Callable[[User], Client]
) -> None:
    for client, slug in ((log_in(owner), "elsewhere"), (log_in(stranger), "pets"), (None, "pets")):
        with pytest.raises(InvalidStatus) as refused:
            open_socket(port, client, slug=slug)
        assert refused.value.response.status_code == 403


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (b"\x00\xff", 1003),
        ("x" * 1_000_000, 1009),
        (b"x" * 1_000_000, 1009),
        ("{not json", 1008),
        ('{"revision": 1}', 1008),
    ],
    ids=["binary", "a megabyte", "a megabyte of bytes", "no JSON", "JSON"],
)
def test_a_message_from_the_client_closes_the_socket_with_a_code(
    port: int, project: Project, owner: User, log_in: Callable[[User], Client], message: str | bytes, code: int
) -> None:
    with open_socket(port, log_in(owner)) as browser:
        browser.recv(timeout=120)
        with suppress(ConnectionClosed):
            browser.send(message)
        assert close_code(browser) == code


def test_a_thousand_messages_close_the_socket_once(
    port: int, project: Project, owner: User, log_in: Callable[[User], Client]
) -> None:
    client = log_in(owner)
    with open_socket(port, client) as browser:
        browser.recv(timeout=120)
        with suppress(ConnectionClosed):
            for number in range(1000):
                browser.send(f'{{"n": {number}}}')
        assert close_code(browser) == live.TEXT_NOT_ALLOWED
    with open_socket(port, client) as again:
        assert json.loads(again.recv(timeout=120))["revision"] == 0


def close_code(browser: ClientConnection) -> int | None:
    """The code with which the server closes this socket."""
    with suppress(ConnectionClosed):
        while True:
            browser.recv(timeout=120)
    return browser.close_code


def test_the_socket_is_closed_within_a_minute_of_logging_out(
    port: int, project: Project, owner: User, log_in: Callable[[User], Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A state is sent every 30 seconds even without changes; here, every half second."""
    assert live.REPEAT_SECONDS + live.POLL_SECONDS + live.AUTHORIZE_SECONDS <= 60
    monkeypatch.setattr(live, "REPEAT_SECONDS", 0.5)
    monkeypatch.setattr(live, "AUTHORIZE_SECONDS", 0.0)
    client = log_in(owner)
    with open_socket(port, client) as browser:
        browser.recv(timeout=120)
        client.post("/accounts/logout/")
        UpdateState.objects.create(project=project, message="a secret")
        with pytest.raises(ConnectionClosed):
            browser.recv(timeout=120)
        assert browser.close_code == live.LOGGED_OUT
