"""Further promises under load: overload, a flooding worker, viewers that never read, restarts, killed processes."""

import os
import signal
import threading
import time
import uuid
from collections import Counter
from pathlib import Path

from benchmarks.load import database
from benchmarks.load.client import LoadClient
from benchmarks.load.installation import Installation, descendants
from benchmarks.load.sockets import Viewers, viewers
from benchmarks.load.stack import WORKER, ServerStack
from benchmarks.load.waiting import wait_until
from benchmarks.load.workforce import fixed_pace
from tests.drills.faults.frame import FULL, PATIENCE, SLUG, Run, serve_options, start

OVERLOAD = 8  # times the rate of the frame: 400 answers per second on the server profile
FLOOD_RATE, FLOOD_THREADS = 200, 8
ACCEPTED = 25  # requests of one worker a second; the limit is 20, and the first window may be cut in two
STUCK, WATCHING = 50, 20
VERSION = "SELECT COALESCE(MAX(number), 0) FROM modelling_modelsnapshot"


def overloaded(run: Run) -> None:
    """P40: far more answers than the server can store; it refuses some, and is normal again afterwards."""
    normal = run.p95_ms(run.frame.warm_up)
    run.workforce.pace = fixed_pace(1 / OVERLOAD)
    statuses = run.statuses_during(lambda: run.pause(2 * run.frame.fault))
    run.workforce.pace = fixed_pace(1.0)
    run.figures |= {"statuses_overloaded": statuses, "p95_before_ms": normal}
    run.expect(set(statuses) <= {200, 201, 429, 503}, f"other statuses under overload: {statuses}")
    run.pause(min(30, run.frame.heal))
    run.figures["p95_after_ms"] = run.p95_ms(run.frame.warm_up)


def flooded(run: Run) -> None:
    """P49: one worker sends 200 answers per second; nearly all are refused, and the others hardly notice."""
    flooder = LoadClient(run.server.port, SLUG, run.server.headers, seed=99)
    flooder.join()
    statuses, stopping = Counter[int](), threading.Event()

    def flood() -> None:
        client = LoadClient(run.server.port, SLUG, run.server.headers, seed=99)
        client.server.cookies, client.token = dict(flooder.cookies), flooder.token
        while not stopping.wait(FLOOD_THREADS / FLOOD_RATE):
            answer = {"uuid": str(uuid.uuid4()), "assignment": str(uuid.uuid4()), "choice": "left"}
            response = client.post(answer)
            statuses[response.status if response else 0] += 1
        client.close()

    threads = [threading.Thread(target=flood) for _ in range(FLOOD_THREADS)]
    for thread in threads:
        thread.start()
    p95 = run.p95_ms(run.frame.fault)
    stopping.set()
    for thread in threads:
        thread.join()
    accepted = (statuses.total() - statuses[429]) / run.frame.fault
    run.figures |= {"flood": dict(statuses), "p95_of_others_ms": p95, "flood_accepted_per_second": round(accepted, 1)}
    run.expect(p95 <= 500 or run.frame is not FULL, f"p95 of the others {p95:g} ms, limit 500 ms")
    run.expect(accepted <= ACCEPTED, f"{accepted:.0f} requests of the flood a second were not refused with 429")


def stuck_viewers(run: Run) -> None:
    """P37: 50 live pages stop reading; memory does not grow, and other pages get new versions as before."""
    with viewers(run.server, SLUG, STUCK) as stuck, viewers(run.server, SLUG, WATCHING, "watcher") as reading:
        for group, count in ((stuck, STUCK), (reading, WATCHING)):
            wait_until(lambda g=group, c=count: g.state()["open"] == c, PATIENCE, "the live pages did not open")
        before = web_megabytes(run)
        os.kill(stuck.process.pid, signal.SIGSTOP)
        lags = version_lags(run, reading, 2 * run.frame.fault)
        os.kill(stuck.process.pid, signal.SIGCONT)
        grown = web_megabytes(run) - before
    run.figures |= {"web_megabytes_grown": round(grown, 1), "version_lags_seconds": summary(lags)}
    run.expect(grown <= 50, f"the web processes grew by {grown:.0f} MB")
    run.expect_within(10, "slowest_page_seconds", max(lags, default=0.0))


def rolling_restart(run: Run) -> None:
    """P42: restart the web processes by signal under load; nothing fails but connections, and each drains in 10 s."""
    drains = []

    def restart() -> None:
        for _ in range(run.frame.repeats):
            drains.append(replace_web_processes(run) if run.server.database_url else stop_and_start(run))
            run.pause(run.frame.fault / 4)

    statuses = run.statuses_during(restart)
    run.figures["statuses_during_restarts"] = statuses
    run.expect(set(statuses) <= {0, 200, 201, 503}, f"other statuses during restarts: {statuses}")
    run.expect_within(10, "longest_drain_seconds", max(drains))


def replace_web_processes(run: Run) -> float:
    """Send SIGHUP: the web processes are replaced one after the other. Return the seconds of one of the two."""
    process = run.server.process
    assert process is not None
    old, began = web_processes(run), time.perf_counter()
    process.send_signal(signal.SIGHUP)
    wait_until(lambda: not old & web_processes(run), PATIENCE, "the web processes were not replaced")
    return (time.perf_counter() - began) / 2


def stop_and_start(run: Run) -> float:
    """Send SIGTERM and start again. Return the seconds until the server had ended."""
    process, began = run.server.process, time.perf_counter()
    assert process is not None
    process.send_signal(signal.SIGTERM)
    wait_until(lambda: process.poll() is not None, PATIENCE, "the server did not end")
    drained = time.perf_counter() - began
    run.server.start(*serve_options(run.server))
    return drained


def start_cluster(server: Installation) -> None:
    """Two web processes and two background workers."""
    start(server)
    assert isinstance(server, ServerStack)
    server.start_background("worker-2", *WORKER, "--hostname", "second@%h")


def processes_killed(run: Run) -> None:
    """Every 20 seconds one of two web processes or two background workers is killed, for five minutes."""
    seconds, interval = (300, 20) if run.frame is FULL else (60, 10)
    stopping, lags = threading.Event(), list[float]()
    with viewers(run.server, SLUG, WATCHING) as watching:
        wait_until(lambda: watching.state()["open"] == WATCHING, PATIENCE, "the live pages did not open")
        watcher = threading.Thread(target=lambda: lags.extend(version_lags(run, watching, seconds, stopping)))
        watcher.start()
        statuses = run.statuses_during(lambda: [kill_one(run, n, interval) for n in range(int(seconds / interval))])
        stopping.set()
        watcher.join()
        state = watching.state()
    run.figures |= {
        "statuses_during_kills": statuses,
        "version_lags_seconds": summary(lags),
        "kills": seconds // interval,
    }
    run.expect(set(statuses) <= {0, 200, 201, 503}, f"other statuses during kills: {statuses}")
    run.expect(state["went_back"] == 0, f"{state['went_back']} messages had an older version")
    run.expect_within(10, "slowest_page_seconds", max(lags, default=0.0))


def kill_one(run: Run, number: int, interval: float) -> None:
    """Kill a web process (its supervisor restarts it) or a background worker (restarted here, as systemd does)."""
    began = time.monotonic()
    if number % 2:
        name = ("worker", "worker-2")[number // 2 % 2]
        run.stack.kill_background(name)
        run.pause(1)
        run.stack.start_background(name, *WORKER, *(("--hostname", "second@%h") if name == "worker-2" else ()))
    else:
        os.kill(run.rng.choice(sorted(web_processes(run))), signal.SIGKILL)
    run.pause(max(0.0, interval - (time.monotonic() - began)))


def web_processes(run: Run) -> set[int]:
    """The web processes below the supervisor, without multiprocessing's own helper."""
    assert run.server.process is not None
    return {pid for pid in descendants(run.server.process.pid) if "spawn_main" in command_line(pid)}


def command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def version_lags(run: Run, watching: Viewers, seconds: float, stopping: threading.Event | None = None) -> list[float]:
    """Seconds from each new version in the database until every live page has it."""
    lags, pending, newest = list[float](), dict[int, float](), 0
    until = time.monotonic() + seconds
    while time.monotonic() < until + 10 and not (stopping and stopping.is_set()):
        number = int(database.query(run.server.database, VERSION)[0][0])
        if number > newest and time.monotonic() < until:
            pending[number], newest = time.monotonic(), number
        seen = watching.state()["oldest_version"]
        for version in [each for each in pending if each <= seen]:
            lags.append(time.monotonic() - pending.pop(version))
        if time.monotonic() > until and not pending:
            break
        run.pause(0.25)
    return lags + [10.0 + time.monotonic() - at for at in pending.values()]


def summary(lags: list[float]) -> dict[str, float]:
    ordered = sorted(lags)
    return {"versions": len(ordered), "median": round(ordered[len(ordered) // 2], 1) if ordered else 0.0} | {
        "longest": round(max(ordered, default=0.0), 1)
    }


def web_megabytes(run: Run) -> float:
    """Resident memory of all web processes."""
    assert run.server.process is not None
    total = 0.0
    for pid in {run.server.process.pid, *descendants(run.server.process.pid)}:
        try:
            fields = Path(f"/proc/{pid}/statm").read_text().split()
        except OSError:
            continue
        total += int(fields[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
    return total
