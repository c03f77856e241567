"""HTTP by a few long-lived threads.

Django's own ASGI handler changes threads for every middleware and opens a database connection in a new thread for each
request. Here a request, once its body is there, waits in line for one of a few threads and is answered by it in one go:
fewer threads fight for the interpreter and for SQLite's one write lock, and each keeps its connection. Answers of
workers have a line of their own, so that no page, import or export is ever before them.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Any

from django.core import signals
from django.core.exceptions import RequestAborted
from django.core.handlers.asgi import ASGIHandler, get_script_prefix
from django.db import close_old_connections
from django.urls import set_script_prefix

ANSWERS = ("/judgements/", "/retractions/", "/task/")  # where the judging page sends and asks
ANSWER_THREADS = 2  # while one waits for the disk, the other computes; more would only wait for SQLite's lock
PAGE_THREADS = 4  # an import or an export may hold one for a while


class PooledHandler(ASGIHandler):
    def __init__(self) -> None:
        self.load_middleware(is_async=False)
        self.answers = ThreadPoolExecutor(ANSWER_THREADS, thread_name_prefix="answer")
        self.pages = ThreadPoolExecutor(PAGE_THREADS, thread_name_prefix="page")

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            body = await self.read_body(receive)
        except RequestAborted:
            return
        line = self.answers if scope["path"].endswith(ANSWERS) else self.pages
        with body:
            response = await asyncio.get_running_loop().run_in_executor(line, self._respond, scope, body)
            if response.streaming:
                await self._stream(response, receive, send)
            else:
                await self.send_response(response, send)

    def _respond(self, scope: Any, body: IO[bytes]) -> Any:
        """Middleware and view, in a thread whose database connection is checked before and given back after."""
        set_script_prefix(get_script_prefix(scope))
        signals.request_started.send(sender=type(self), scope=scope)
        request, refusal = self.create_request(scope, body)
        response: Any = self.get_response(request) if request else refusal
        response._handler_class = type(self)
        if response.streaming:
            close_old_connections()  # the stream, which may take minutes, asks for its own
        else:
            response.close()
        return response

    async def _stream(self, response: Any, receive: Any, send: Any) -> None:
        """The response is sent piece by piece, until its end or until nobody reads it any more."""
        sending = asyncio.create_task(self.send_response(response, send))
        leaving = asyncio.create_task(self.listen_for_disconnect(receive))
        try:
            await asyncio.wait([sending, leaving], return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                sending.result()
        finally:
            sending.cancel()
            leaving.cancel()
            await asyncio.gather(sending, leaving, return_exceptions=True)
            await asyncio.get_running_loop().run_in_executor(self.pages, response.close)
