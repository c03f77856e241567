"""Limits for the head of a request, on a server that is reached without a proxy."""

import socket
from contextlib import suppress

import pytest

from config import http_protocol
from config.http_protocol import MAX_HEAD_BYTES, LimitedHttpProtocol
from tests.helpers.serving import serving

START = b"GET / HTTP/1.1\r\nHost: x\r\n"


async def respond(scope, receive, send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})


def status_of(*parts: bytes) -> str:
    """Send these parts of a request and return the first line of the response."""
    with (
        serving(respond, http=LimitedHttpProtocol) as port,
        socket.create_connection(("127.0.0.1", port), timeout=60) as connection,
    ):
        with suppress(ConnectionError):  # the server may respond and close before it has read everything
            for part in parts:
                connection.sendall(part)
        return " ".join(connection.makefile("rb").readline().decode().split()[1:])


def test_an_ordinary_request_passes() -> None:
    assert status_of(START, b"Cookie: " + b"x" * 8000 + b"\r\n\r\n") == "200 OK"


def test_a_complete_head_over_the_limit_is_refused() -> None:
    headers = b"".join(b"X-%d: %s\r\n" % (n, b"x" * 500) for n in range(MAX_HEAD_BYTES // 400))
    assert status_of(START + headers + b"\r\n")[:3] in ("400", "431")
    assert status_of(b"GET /" + b"x" * MAX_HEAD_BYTES + b" HTTP/1.1\r\nHost: x\r\n\r\n")[:3] in ("400", "431")


def test_a_header_that_never_ends_is_refused() -> None:
    assert status_of(START, b"X: " + b"x" * 2 * MAX_HEAD_BYTES) == "431 Request Header Fields Too Large"


@pytest.mark.parametrize("parts", [(), (START,), (START + b"\r\n"[:1],)])
def test_a_head_that_does_not_arrive_in_time_is_refused(monkeypatch: pytest.MonkeyPatch, parts: tuple[bytes]) -> None:
    monkeypatch.setattr(http_protocol, "HEAD_SECONDS", 0.05)
    assert status_of(*parts) == "408 Request Timeout"
