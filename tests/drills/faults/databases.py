"""D4, D5, D9: PostgreSQL is killed, Redis loses everything, the database is slow or frozen."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.load import database
from benchmarks.load.installation import Installation, descendants
from tests.drills.faults.frame import FULL, Run, start
from tests.drills.faults.proxy import SlowProxy

DELAY, FROZEN_SECONDS = 0.3, 15
LONGEST_ANSWER = 10.0
MAX_THREADS = 40  # of one web process


def postgresql_killed(run: Run) -> None:
    """D4: kill PostgreSQL's first process and start it again; answers get 503 meanwhile and go on afterwards."""
    settings = [database.query(run.server.database, f"SHOW {name}")[0][0] for name in ("fsync", "synchronous_commit")]
    run.expect(settings == ["on", "on"], f"PostgreSQL does not sync commits: {settings}")

    def kill_and_start() -> None:
        run.stack.postgres.kill()
        run.pause(20 if run.frame is FULL else run.frame.fault)
        run.stack.postgres.start()

    statuses = run.statuses_during(kill_and_start)
    run.figures["statuses_while_down"] = statuses
    run.expect(503 in statuses, "no answer was refused with 503")
    run.expect_within(10, "first_answer_seconds", run.seconds_to_next_answer())


def redis_lost(run: Run) -> None:
    """D5: kill Redis and start it empty; judging goes on without an error, and the model catches up."""
    run.stack.redis.kill()
    statuses = run.statuses_during(lambda: run.pause(run.frame.fault))
    run.figures["statuses_without_redis"] = statuses
    run.expect(set(statuses) <= {200, 201}, f"answers failed without Redis: {statuses}")
    run.stack.redis.start()
    run.expect_within(60, "model_after_redis_seconds", run.wait_for_model())


def start_behind_proxy(server: Installation) -> None:
    """Put a slow proxy between the server and PostgreSQL."""
    if server.database_url:
        proxy = SlowProxy(urlsplit(server.database_url).port or 0)
        proxy.__enter__()
        server.proxy = proxy  # type: ignore[attr-defined]
        server.database_url = server.database_url.replace(f":{proxy.target}/", f":{proxy.port}/")
    start(server)


def slow_and_frozen(run: Run) -> None:
    """D9: 300 ms more for every statement, then no response at all for 15 s; every answer returns within 10 s."""
    normal = run.p95_ms(run.frame.warm_up)
    if run.server.database_url:
        proxy: SlowProxy = run.server.proxy  # type: ignore[attr-defined]
        proxy.delay = DELAY
        slow = run.statuses_during(lambda: run.pause(run.frame.fault))
        proxy.delay = 0.0
        run.figures["statuses_while_slow"] = slow
        run.expect(set(slow) <= {200, 201, 429, 503}, f"answers failed while the database was slow: {slow}")
        run.pause(LONGEST_ANSWER)
        proxy.thawed.clear()
        frozen = run.statuses_during(lambda: run.pause(FROZEN_SECONDS))
        proxy.thawed.set()
    else:
        with write_lock_held(Path(run.server.database)):
            frozen = run.statuses_during(lambda: run.pause(FROZEN_SECONDS))
    threads = most_threads(run)
    run.figures |= {"statuses_while_frozen": frozen, "threads": threads}
    run.expect(set(frozen) <= {200, 201, 429, 503}, f"answers failed while the database was frozen: {frozen}")
    run.expect(503 in frozen, "no answer was refused with 503")
    run.expect(threads <= MAX_THREADS, f"a web process has {threads} threads")
    run.expect_within(30, "first_answer_seconds", run.seconds_to_next_answer())
    longest = max(wait for client in run.workforce.clients for wait in client.stats.waits)
    run.expect_within(LONGEST_ANSWER, "longest_response_seconds", longest)
    run.pause(LONGEST_ANSWER)
    run.figures |= {"p95_before_ms": normal, "p95_after_ms": run.p95_ms(run.frame.warm_up)}


def most_threads(run: Run) -> int:
    """The number of threads of the web process with the most."""
    assert run.server.process is not None
    processes = {run.server.process.pid, *descendants(run.server.process.pid)}
    return max(len(list(Path(f"/proc/{pid}/task").glob("*"))) for pid in processes)


@contextmanager
def write_lock_held(path: Path) -> Iterator[None]:
    """Hold SQLite's write lock from a second connection."""
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        connection = sqlite3.connect(path, isolation_level=None, timeout=60)
        connection.execute("BEGIN IMMEDIATE")
        held.set()
        done.wait()
        connection.execute("ROLLBACK")
        connection.close()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    try:
        yield
    finally:
        done.set()
        thread.join()
