"""A request body over the limit is refused before it is read, and one that stops arriving is not waited for."""

import asyncio
from collections.abc import Iterator

import pytest

from annotation.http.upload_limit import BodyLimit, Message, Receive, Send
from tests.conftest import run_in_thread

LIMIT = 1000
STALL = b"nothing more arrives"


class Server:
    """An ASGI server that sends a body in pieces and records what the app read and sent."""

    def __init__(self, pieces: list[bytes], length: str | None) -> None:
        self.pieces: Iterator[bytes] = iter(pieces)
        self.read = 0
        self.sent: list[Message] = []
        headers = [] if length is None else [(b"content-length", length.encode())]
        self.scope: Message = {"type": "http", "headers": headers}

    async def receive(self) -> Message:
        piece = next(self.pieces, b"")
        self.read += len(piece)
        if piece == STALL:
            await asyncio.Future()
        return {"type": "http.request", "body": piece, "more_body": bool(piece)}

    async def send(self, message: Message) -> None:
        self.sent.append(message)

    def ask(self) -> int:
        run_in_thread(BodyLimit(read_all, LIMIT, pause=0.01)(self.scope, self.receive, self.send))
        return int(self.sent[0]["status"])


async def read_all(scope: Message, receive: Receive, send: Send) -> None:
    """An app that reads the whole body first, like Django, and responds even after a disconnect."""
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"read"})


def test_a_large_content_length_is_refused_without_reading() -> None:
    server = Server([b"x" * 100] * 50, "5000")
    assert (server.ask(), server.read) == (413, 0)
    assert b"Nothing was changed" in server.sent[1]["body"]


@pytest.mark.parametrize("length", [None, "10", "nonsense"])
def test_a_body_that_grows_too_large_is_refused_before_it_is_complete(length: str | None) -> None:
    server = Server([b"x" * 100] * 500, length)
    assert server.ask() == 413
    assert server.read == 1100
    assert len(server.sent) == 2


def test_a_body_at_the_limit_passes() -> None:
    server = Server([b"x" * 100] * 10, "1000")
    assert server.ask() == 200


def test_a_body_that_stops_arriving_is_refused() -> None:
    server = Server([b"x" * 100, STALL], "900")
    assert server.ask() == 408
    assert b"Nothing was changed" in server.sent[1]["body"]
    assert len(server.sent) == 2


def test_other_protocols_pass() -> None:
    server = Server([], None)
    server.scope["type"] = "websocket"
    assert server.ask() == 200
