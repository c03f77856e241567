"""Requests by a few threads: answers have a line of their own, and a stream ends when nobody reads it any more."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from typing import Any

import pytest
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse

from config.handler import PAGE_THREADS, PooledHandler
from tests.conftest import run_apart

Message = dict[str, Any]


@pytest.fixture
def handler(monkeypatch: pytest.MonkeyPatch) -> PooledHandler:
    """Says in which thread it answered."""
    handler = PooledHandler()
    answer_with(handler, monkeypatch, lambda: HttpResponse(threading.current_thread().name))
    return handler


def answer_with(handler: PooledHandler, monkeypatch: pytest.MonkeyPatch, make: Callable[[], Any]) -> None:
    def respond(request: HttpRequest) -> Any:
        return make()

    monkeypatch.setattr(handler, "get_response", respond)


async def ask(handler: PooledHandler, path: str, *after: Message) -> list[Message]:
    """What was sent back; `after` is what the client does once its request is there. Then it only waits."""
    asked = [{"type": "http.request", "body": b"", "more_body": False}, *after]
    sent: list[Message] = []

    async def receive() -> Message:
        return asked.pop(0) if asked else await asyncio.Future()

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": path, "headers": [], "query_string": b"", "scheme": "http"}
    await handler({**scope, "server": ("testserver", 80), "client": ("127.0.0.1", 1)}, receive, send)
    return sent


def body_of(sent: list[Message]) -> str:
    return b"".join(message.get("body", b"") for message in sent).decode()


@pytest.mark.parametrize("path", ["/s/pets/judgements/", "/s/pets/retractions/", "/s/pets/task/"])
def test_an_answer_waits_for_no_page(handler: PooledHandler, path: str) -> None:
    done = threading.Event()
    busy: list[Future[bool]] = [handler.pages.submit(done.wait, 30) for _ in range(PAGE_THREADS)]
    try:
        assert body_of(run_apart(ask(handler, path))).startswith("answer")
    finally:
        done.set()
    assert all(page.result() for page in busy)


def test_pages_are_answered_by_threads_for_pages(handler: PooledHandler) -> None:
    assert body_of(run_apart(ask(handler, "/s/pets/"))).startswith("page")


def test_a_client_who_leaves_before_the_request_is_there_is_not_answered(handler: PooledHandler) -> None:
    async def leave() -> Message:
        return {"type": "http.disconnect"}

    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    run_apart(handler({"type": "http", "path": "/"}, leave, send))
    assert sent == []


def test_a_stream_is_sent_to_its_end_and_closed(handler: PooledHandler, monkeypatch: pytest.MonkeyPatch) -> None:
    async def three() -> AsyncIterator[str]:
        for word in ("one ", "two ", "three"):
            yield word

    streams: list[StreamingHttpResponse] = []
    answer_with(handler, monkeypatch, lambda: streams.append(StreamingHttpResponse(three())) or streams[0])
    assert body_of(run_apart(ask(handler, "/export/"))) == "one two three"
    assert streams[0].closed


def test_a_stream_ends_when_nobody_reads_it(handler: PooledHandler, monkeypatch: pytest.MonkeyPatch) -> None:
    async def without_end() -> AsyncIterator[str]:
        while True:
            yield "more "
            await asyncio.sleep(0)

    streams: list[StreamingHttpResponse] = []
    answer_with(handler, monkeypatch, lambda: streams.append(StreamingHttpResponse(without_end())) or streams[0])
    run_apart(ask(handler, "/export/", {"type": "http.disconnect"}))
    assert streams[0].closed


def test_a_stream_that_fails_says_so_to_the_server(handler: PooledHandler, monkeypatch: pytest.MonkeyPatch) -> None:
    async def breaks_off() -> AsyncIterator[str]:
        yield "one "
        raise RuntimeError("the disk is gone")

    answer_with(handler, monkeypatch, lambda: StreamingHttpResponse(breaks_off()))
    with pytest.raises(RuntimeError, match="the disk is gone"):
        run_apart(ask(handler, "/export/"))
