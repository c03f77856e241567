"""ASGI middleware that refuses a request body over the limit before Django reads it.

Under ASGI Django writes the whole body to a temporary file before any middleware or view runs.
"""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[..., Awaitable[None]]  # (scope, receive, send)

MESSAGE = (
    "The upload is larger than {megabytes} MB. Nothing was changed. "
    "Split the file into smaller ones and upload them one after the other.\n"
)


class BodyLimit:
    """Respond with 413 if Content-Length exceeds `limit` bytes, or as soon as a body without one does."""

    def __init__(self, app: App, limit: int) -> None:
        self.app, self.limit = app, limit

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
        elif _content_length(scope) > self.limit:
            await self._refuse(send)
        else:
            await self._limit_body(scope, receive, send)

    async def _limit_body(self, scope: Message, receive: Receive, send: Send) -> None:
        """Disconnect the app when the body becomes too large, and discard its response."""
        received = 0

        async def limited_receive() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            return {"type": "http.disconnect"} if received > self.limit else message

        async def limited_send(message: Message) -> None:
            if received <= self.limit:
                await send(message)

        await self.app(scope, limited_receive, limited_send)
        if received > self.limit:
            await self._refuse(send)

    async def _refuse(self, send: Send) -> None:
        body = MESSAGE.format(megabytes=self.limit // 1_000_000).encode()
        headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 413, "headers": [*headers, (b"connection", b"close")]})
        await send({"type": "http.response.body", "body": body})


def _content_length(scope: Message) -> int:
    length = dict(scope["headers"]).get(b"content-length", b"")
    return int(length) if length.isdigit() else 0
