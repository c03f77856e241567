"""ASGI middleware that refuses a request body that is too large, before Django reads it, or that stops arriving.

Under ASGI Django writes the whole body to a temporary file before any middleware or view runs.
"""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[..., Awaitable[None]]  # (scope, receive, send)

PAUSE_SECONDS = 30.0  # the longest pause between two parts of a body

TOO_LARGE = (
    "The upload is larger than {megabytes} MB. Nothing was changed. "
    "Split the file into smaller ones and upload them one after the other.\n"
)
TOO_SLOW = "The upload stopped before it was complete. Nothing was changed. Try again.\n"


class BodyLimit:
    """Respond with 413 to bodies over `limit` bytes, at once if Content-Length says so, and with 408 to long pauses."""

    def __init__(self, app: App, limit: int, pause: float = PAUSE_SECONDS) -> None:
        self.app, self.limit, self.pause = app, limit, pause

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
        elif _content_length(scope) > self.limit:
            await self._refuse(send, 413)
        else:
            await self._limit_body(scope, receive, send)

    async def _limit_body(self, scope: Message, receive: Receive, send: Send) -> None:
        """Disconnect the app when the body becomes too large or stops, and discard its response."""
        received, complete, refused = 0, False, 0

        async def limited_receive() -> Message:
            nonlocal received, complete, refused
            try:
                # Once the body is complete, the app waits here for the client to disconnect.
                message = await asyncio.wait_for(receive(), None if complete else self.pause)
            except TimeoutError:
                refused = 408
                return {"type": "http.disconnect"}
            received += len(message.get("body", b""))
            complete = not message.get("more_body")
            if received > self.limit:
                refused = 413
            return {"type": "http.disconnect"} if refused else message

        async def limited_send(message: Message) -> None:
            if not refused:
                await send(message)

        await self.app(scope, limited_receive, limited_send)
        if refused:
            await self._refuse(send, refused)

    async def _refuse(self, send: Send, status: int) -> None:
        text = TOO_LARGE.format(megabytes=self.limit // 1_000_000) if status == 413 else TOO_SLOW
        body = text.encode()
        headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": [*headers, (b"connection", b"close")]})
        await send({"type": "http.response.body", "body": body})


def _content_length(scope: Message) -> int:
    length = dict(scope["headers"]).get(b"content-length", b"")
    return int(length) if length.isdigit() else 0
