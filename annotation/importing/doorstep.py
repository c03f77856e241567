"""The outermost door for HTTP: a body over the limit is refused before the server has taken it in.

Under ASGI Django writes the whole body to a temporary file before any middleware or view is asked.
"""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[..., Awaitable[None]]  # (scope, receive, send)

REFUSAL = (
    "What was sent is larger than {megabytes} MB. Nothing was changed. "
    "Split the file into smaller ones and send them one after the other.\n"
)


class BodyLimit:
    """Answers 413 by the announced length, or as soon as an unannounced body has grown past `limit` bytes."""

    def __init__(self, app: App, limit: int) -> None:
        self.app, self.limit = app, limit

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
        elif _announced(scope) > self.limit:
            await self._refuse(send)
        else:
            await self._watch(scope, receive, send)

    async def _watch(self, scope: Message, receive: Receive, send: Send) -> None:
        """The app sees a body that breaks off where it grew too large, and its answer to that is not sent."""
        taken = 0

        async def counted() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            return {"type": "http.disconnect"} if taken > self.limit else message

        async def sent(message: Message) -> None:
            if taken <= self.limit:
                await send(message)

        await self.app(scope, counted, sent)
        if taken > self.limit:
            await self._refuse(send)

    async def _refuse(self, send: Send) -> None:
        body = REFUSAL.format(megabytes=self.limit // 1_000_000).encode()
        headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 413, "headers": [*headers, (b"connection", b"close")]})
        await send({"type": "http.response.body", "body": body})


def _announced(scope: Message) -> int:
    length = dict(scope["headers"]).get(b"content-length", b"")
    return int(length) if length.isdigit() else 0
