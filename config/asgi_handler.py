"""An ASGI handler that runs requests in small thread pools.

Django's own handler switches threads for every middleware and opens a database connection in a new thread for each
request. Here one thread of a pool handles a request from middleware to response: fewer threads compete for the GIL
and for SQLite's write lock, and each keeps its connection. Judging requests have their own pool, so that no page,
import or export delays them, and each health check has one too. If too many requests wait for a pool, the next one is
refused at once, and one that has waited too long for a thread is refused as well: a client that tries again later is
served sooner than one at the end of a long queue.
"""

import asyncio
import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Any

from django.core import signals
from django.core.exceptions import RequestAborted
from django.core.handlers.asgi import ASGIHandler, get_script_prefix
from django.db import close_old_connections
from django.urls import set_script_prefix

from config.monitoring.process_metrics import measure_request

JUDGING_PATHS = ("/judgements/", "/retractions/", "/task/")
HEALTH_PATHS = ("/healthz", "/readyz")
JUDGING_THREADS = 2  # one computes while the other waits for the disk; more would only wait for SQLite's lock
PAGE_THREADS = 4  # an import or an export may occupy one for a while
MAX_WAITING = 100  # requests per pool; about a second of work
THREAD_SECONDS = 5.0  # how long a request waits for a thread
PROBLEM = {
    "type": "about:blank",
    "title": "The server is busy.",
    "status": 503,
    "detail": "Everything already saved is safe. An answer given now is not saved yet; try again in a few seconds.",
}
BUSY = json.dumps(PROBLEM).encode()
BUSY_HEADERS = [
    (b"content-type", b"application/problem+json"),
    (b"content-length", str(len(BUSY)).encode()),
    (b"retry-after", b"2"),
]


class PooledHandler(ASGIHandler):
    def __init__(self) -> None:
        self.load_middleware(is_async=False)
        self.judging_pool = ThreadPoolExecutor(JUDGING_THREADS, thread_name_prefix="judging")
        self.page_pool = ThreadPoolExecutor(PAGE_THREADS, thread_name_prefix="page")
        self.waiting: Counter[ThreadPoolExecutor] = Counter()
        self.health_pools = {path: ThreadPoolExecutor(1, thread_name_prefix="health") for path in HEALTH_PATHS}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        pool = self._pool_for(scope["path"])
        if self.waiting[pool] >= MAX_WAITING:
            with measure_request(scope["path"]) as measurement:
                measurement.status = 503
            await self._refuse(send)
            return
        try:
            body = await self.read_body(receive)
        except RequestAborted:
            return
        with body:
            response = await self._respond_in(pool, scope, body)
            if response is None:
                await self._refuse(send)
            elif response.streaming:
                await self._stream(response, receive, send)
            else:
                await self.send_response(response, send)

    async def _respond_in(self, pool: ThreadPoolExecutor, scope: Any, body: IO[bytes]) -> Any:
        """Run the request in one of the pool's threads; None if no thread was free in time."""
        self.waiting[pool] += 1
        try:
            with measure_request(scope["path"]) as measurement:
                work = pool.submit(self._respond, scope, body)
                result = asyncio.wrap_future(work)
                await asyncio.wait([result], timeout=THREAD_SECONDS)
                if work.cancel():  # impossible once a thread has begun
                    measurement.status = 503
                    return None
                response = await result
                measurement.status = response.status_code
            return response
        finally:
            self.waiting[pool] -= 1

    async def _refuse(self, send: Any) -> None:
        await send({"type": "http.response.start", "status": 503, "headers": BUSY_HEADERS})
        await send({"type": "http.response.body", "body": BUSY})

    def _pool_for(self, path: str) -> ThreadPoolExecutor:
        if path.endswith(JUDGING_PATHS):
            return self.judging_pool
        return self.health_pools.get(path, self.page_pool)

    def _respond(self, scope: Any, body: IO[bytes]) -> Any:
        """Run middleware and view. The request signals check and release the thread's database connection."""
        set_script_prefix(get_script_prefix(scope))
        signals.request_started.send(sender=type(self), scope=scope)
        request, error_response = self.create_request(scope, body)
        response: Any = self.get_response(request) if request else error_response
        response._handler_class = type(self)
        if response.streaming:
            close_old_connections()  # streaming may take minutes and opens its own connection
        else:
            response.close()
        return response

    async def _stream(self, response: Any, receive: Any, send: Any) -> None:
        """Send the response in chunks until it ends or the client disconnects."""
        sending = asyncio.create_task(self.send_response(response, send))
        disconnect = asyncio.create_task(self.listen_for_disconnect(receive))
        try:
            await asyncio.wait([sending, disconnect], return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                sending.result()
        finally:
            sending.cancel()
            disconnect.cancel()
            await asyncio.gather(sending, disconnect, return_exceptions=True)
            await asyncio.get_running_loop().run_in_executor(self.page_pool, response.close)
