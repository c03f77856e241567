"""uvicorn's HTTP protocol with limits on a request's head: its size, and the time until it is complete.

uvicorn reads a head of any size for any time. A proxy in front has limits of its own (deploy/nginx.conf); these protect
a server that is reached directly.
"""

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEAD_BYTES = 32_768
HEAD_SECONDS = 20.0


class HeadTooLarge(Exception):
    """Request line and headers exceed MAX_HEAD_BYTES."""


class LimitedHttpProtocol(HttpToolsProtocol):
    _deadline: asyncio.TimerHandle | None = None  # set while a request's head is incomplete
    _head_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_head()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._head_bytes += len(data)
        if self._deadline is not None and self._head_bytes > MAX_HEAD_BYTES:
            self._refuse(b"431 Request Header Fields Too Large")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._expect_head()

    def on_headers_complete(self) -> None:
        self._end_head()
        if len(self.url) + sum(len(name) + len(value) for name, value in self.headers) > MAX_HEAD_BYTES:
            raise HeadTooLarge
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        """Cancel the deadline; uvicorn calls this for every exception in the callbacks above."""
        self._end_head()
        super().send_400_response(msg)

    def handle_websocket_upgrade(self) -> None:
        self._end_head()
        super().handle_websocket_upgrade()

    def _expect_head(self) -> None:
        self._end_head()
        self._head_bytes = 0
        self._deadline = self.loop.call_later(HEAD_SECONDS, self._refuse, b"408 Request Timeout")

    def _end_head(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _refuse(self, status: bytes) -> None:
        self._end_head()
        if not self.transport.is_closing():
            self.transport.write(b"HTTP/1.1 " + status + b"\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            self.transport.close()
