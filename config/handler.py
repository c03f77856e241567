"""HTTP by a few long-lived threads.

Django's own ASGI handler changes threads for every middleware and opens a database connection in a new thread for each
request. Here a request, once its body is there, waits in line for one of a few threads and is answered by it in one go:
fewer threads fight for the interpreter and for SQLite's one write lock, and each keeps its connection.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from django.core.handlers.asgi import ASGIHandler
from django.db import close_old_connections
from django.http import HttpRequest
from django.http.response import HttpResponseBase

THREADS = 4  # two keep two cores busy; two more, so that an import or an export does not hold up judging


class PooledHandler(ASGIHandler):
    def __init__(self) -> None:
        self.load_middleware(is_async=False)
        self.threads = ThreadPoolExecutor(THREADS, thread_name_prefix="request")

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self.handle(scope, receive, send)

    async def run_get_response(self, request: HttpRequest) -> HttpResponseBase:
        return await asyncio.get_running_loop().run_in_executor(self.threads, self._respond, request)

    def _respond(self, request: HttpRequest) -> HttpResponseBase:
        """Middleware and view, in a thread whose database connection is checked before and given back after."""
        close_old_connections()
        try:
            return self.get_response(request)
        finally:
            close_old_connections()
