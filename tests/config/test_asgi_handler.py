"""The ASGI handler: judging requests have their own threads, and streams end when the client disconnects."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from typing import Any

import pytest
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse

from config.asgi_handler import JUDGING_THREADS, PAGE_THREADS, PooledHandler
from tests.conftest import run_in_thread

Message = dict[str, Any]


@pytest.fixture
def handler(monkeypatch: pytest.MonkeyPatch) -> PooledHandler:
    """A handler whose responses name their thread."""
    handler = PooledHandler()
    respond_with(handler, monkeypatch, lambda: HttpResponse(threading.current_thread().name))
    return handler


def respond_with(handler: PooledHandler, monkeypatch: pytest.MonkeyPatch, make: Callable[[], Any]) -> None:
    def respond(request: HttpRequest) -> Any:
        return make()

    monkeypatch.setattr(handler, "get_response", respond)


async def ask(handler: PooledHandler, path: str, *after: Message) -> list[Message]:
    """Return the messages sent for a GET request; the client then sends `after` and waits."""
    received = [{"type": "http.request", "body": b"", "more_body": False}, *after]
    sent: list[Message] = []

    async def receive() -> Message:
        return received.pop(0) if received else await asyncio.Future()

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": path, "headers": [], "query_string": b"", "scheme": "http"}
    await handler({**scope, "server": ("testserver", 80), "client": ("127.0.0.1", 1)}, receive, send)
    return sent


def body_of(sent: list[Message]) -> str:
    return b"".join(message.get("body", b"") for message in sent).decode()


@pytest.mark.parametrize("path", ["/s/pets/judgements/", "/s/pets/retractions/", "/s/pets/task/"])
def test_judging_requests_do_not_wait_for_pages(handler: PooledHandler, path: str) -> None:
    done = threading.Event()
    busy: list[Future[bool]] = [handler.page_pool.submit(done.wait, 30) for _ in range(PAGE_THREADS)]
    try:
        assert body_of(run_in_thread(ask(handler, path))).startswith("judging")
    finally:
        done.set()
    assert all(page.result() for page in busy)


def test_requests_are_refused_at_once_when_too_many_wait(
    handler: PooledHandler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("config.asgi_handler.MAX_WAITING", 3)
    begun, done = threading.Barrier(JUDGING_THREADS + 1), threading.Event()

    def respond() -> HttpResponse:
        if not done.is_set():
            begun.wait(60)
            done.wait(60)
        return HttpResponse("stored")

    respond_with(handler, monkeypatch, respond)

    async def overload() -> tuple[list[Message], list[Message], list[list[Message]]]:
        accepted = [asyncio.create_task(ask(handler, "/s/pets/judgements/")) for _ in range(3)]
        await asyncio.to_thread(begun.wait, 60)
        refused = await ask(handler, "/s/pets/judgements/")
        done.set()
        healthy = await ask(handler, "/healthz")
        return refused, healthy, await asyncio.gather(*accepted)

    refused, healthy, accepted = run_in_thread(overload())
    assert refused[0]["status"] == 503
    assert (b"retry-after", b"2") in refused[0]["headers"]
    assert "not saved yet" in body_of(refused)
    assert healthy[0]["status"] == 200
    assert [body_of(each) for each in accepted] == ["stored"] * 3
    assert not +handler.waiting


def test_a_request_that_waits_too_long_for_a_thread_is_refused_and_never_runs(
    handler: PooledHandler, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, done, ran = threading.Barrier(JUDGING_THREADS + 1), threading.Event(), list[str]()

    def respond() -> HttpResponse:
        ran.append("one")
        begun.wait(60)
        done.wait(60)
        return HttpResponse("stored")

    respond_with(handler, monkeypatch, respond)

    async def overload() -> tuple[list[Message], list[list[Message]]]:
        accepted = [asyncio.create_task(ask(handler, "/s/pets/judgements/")) for _ in range(JUDGING_THREADS)]
        await asyncio.to_thread(begun.wait, 60)
        monkeypatch.setattr("config.asgi_handler.THREAD_SECONDS", 0.2)
        refused = await ask(handler, "/s/pets/judgements/")
        done.set()
        return refused, await asyncio.gather(*accepted)

    refused, accepted = run_in_thread(overload())
    assert refused[0]["status"] == 503
    assert (b"retry-after", b"2") in refused[0]["headers"]
    assert [body_of(each) for each in accepted] == ["stored"] * JUDGING_THREADS, "requests that have begun go on"
    assert len(ran) == JUDGING_THREADS
    assert not +handler.waiting


def test_pages_use_the_page_threads(handler: PooledHandler) -> None:
    assert body_of(run_in_thread(ask(handler, "/s/pets/"))).startswith("page")


def test_a_client_that_disconnects_during_the_request_gets_no_response(handler: PooledHandler) -> None:
    async def disconnect() -> Message:
        return {"type": "http.disconnect"}

    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    run_in_thread(handler({"type": "http", "path": "/"}, disconnect, send))
    assert sent == []


def test_a_stream_is_sent_to_its_end_and_closed(handler: PooledHandler, monkeypatch: pytest.MonkeyPatch) -> None:
    async def three_chunks() -> AsyncIterator[str]:
        for word in ("one ", "two ", "three_chunks"):
            yield word

    streams: list[StreamingHttpResponse] = []
    respond_with(handler, monkeypatch, lambda: streams.append(StreamingHttpResponse(three_chunks())) or streams[0])
    assert body_of(run_in_thread(ask(handler, "/export/"))) == "one two three_chunks"
    assert streams[0].closed


def test_a_stream_ends_when_the_client_disconnects(handler: PooledHandler, monkeypatch: pytest.MonkeyPatch) -> None:
    async def unfinished_chunks() -> AsyncIterator[str]:
        yield "more "
        await asyncio.Future()

    streams: list[StreamingHttpResponse] = []
    respond_with(handler, monkeypatch, lambda: streams.append(StreamingHttpResponse(unfinished_chunks())) or streams[0])
    run_in_thread(ask(handler, "/export/", {"type": "http.disconnect"}))
    assert streams[0].closed


def test_an_error_in_a_stream_reaches_the_server(handler: PooledHandler, monkeypatch: pytest.MonkeyPatch) -> None:
    async def failing_chunks() -> AsyncIterator[str]:
        yield "one "
        raise RuntimeError("the disk is gone")

    respond_with(handler, monkeypatch, lambda: StreamingHttpResponse(failing_chunks()))
    with pytest.raises(RuntimeError, match="the disk is gone"):
        run_in_thread(ask(handler, "/export/"))
