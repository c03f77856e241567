"""A body over the limit is refused while it comes in, whatever it announces."""

from collections.abc import Iterator

import pytest

from annotation.importing.doorstep import BodyLimit, Message, Receive, Send
from tests.conftest import run_apart

LIMIT = 1000


class Server:
    """Sends a body in pieces, and remembers how much was asked for and what was answered."""

    def __init__(self, pieces: list[bytes], length: str | None) -> None:
        self.pieces: Iterator[bytes] = iter(pieces)
        self.taken = 0
        self.sent: list[Message] = []
        headers = [] if length is None else [(b"content-length", length.encode())]
        self.scope: Message = {"type": "http", "headers": headers}

    async def receive(self) -> Message:
        piece = next(self.pieces, b"")
        self.taken += len(piece)
        return {"type": "http.request", "body": piece, "more_body": bool(piece)}

    async def send(self, message: Message) -> None:
        self.sent.append(message)

    def ask(self) -> int:
        run_apart(BodyLimit(read_all, LIMIT)(self.scope, self.receive, self.send))
        return int(self.sent[0]["status"])


async def read_all(scope: Message, receive: Receive, send: Send) -> None:
    """An app that takes in the whole body first, as Django does, and answers even when it broke off."""
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"read"})


def test_a_body_that_announces_too_much_is_refused_unread() -> None:
    server = Server([b"x" * 100] * 50, "5000")
    assert (server.ask(), server.taken) == (413, 0)
    assert b"Nothing was changed" in server.sent[1]["body"]


@pytest.mark.parametrize("length", [None, "10", "nonsense"])
def test_a_body_that_grows_too_large_is_refused_before_it_is_read_whole(length: str | None) -> None:
    server = Server([b"x" * 100] * 500, length)
    assert server.ask() == 413
    assert server.taken == 1100
    assert len(server.sent) == 2


def test_a_body_of_the_limit_passes() -> None:
    server = Server([b"x" * 100] * 10, "1000")
    assert server.ask() == 200


def test_what_is_not_http_passes_untouched() -> None:
    server = Server([], None)
    server.scope["type"] = "websocket"
    assert server.ask() == 200
