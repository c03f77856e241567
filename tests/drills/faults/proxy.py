"""A TCP proxy in a thread that delays what clients send, or passes nothing on while it is frozen."""

import asyncio
import threading
from types import TracebackType


class SlowProxy:
    """Listens on a free port of 127.0.0.1 and forwards to `target`."""

    def __init__(self, target: int) -> None:
        self.target, self.port, self.delay = target, 0, 0.0
        self.thawed = threading.Event()
        self.thawed.set()
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "SlowProxy":
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self) -> None:
        server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        self._loop.run_forever()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            upstream_reader, upstream_writer = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.close()
            return
        await asyncio.gather(
            self._forward(reader, upstream_writer, delayed=True), self._forward(upstream_reader, writer, delayed=False)
        )

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, delayed: bool) -> None:
        try:
            while chunk := await reader.read(65536):
                while not self.thawed.is_set():
                    await asyncio.sleep(0.05)
                if delayed and self.delay:
                    await asyncio.sleep(self.delay)
                writer.write(chunk)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()
