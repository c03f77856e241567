"""D1, D2: the web process is killed between commit and response, and between insert and commit."""

import time

from benchmarks.load.installation import descendants
from tests.drills.faults.frame import FULL, Run, serve_options

RANDOM_KILLS = {True: 50, False: 5}  # by whether the frame is the full one


def killed_after_commit(run: Run) -> None:
    """D1: kill between commit and response, then at random moments; a repeated answer returns the first receipt."""
    crash_at(run, "after_commit")
    run.expect(run.workforce.statuses()[200] > 0, "no repeated answer returned the first receipt (200)")
    starts = []
    for _ in range(RANDOM_KILLS[run.frame is FULL]):
        run.pause(run.rng.random())
        starts.append(run.kill_and_restart())
    run.figures["random_kills"] = len(starts)
    run.expect_within(10, "longest_restart_seconds", max(starts))


def killed_before_commit(run: Run) -> None:
    """D2: kill between insert and commit; the row is absent, and the repetition stores it once."""
    crash_at(run, "before_commit")


def crash_at(run: Run, point: str) -> None:
    """Let web processes kill themselves at this point while the fault lasts; each starts again."""
    kills, until = 0, time.monotonic() + run.frame.fault
    while time.monotonic() < until or not kills:
        plan = f"point={point},action=exit9,nth={run.rng.randrange(3, 30)}"
        run.server.kill()
        run.server.variables = {"FAULTS": plan, "CONCORD_DRILL": "1"}
        run.server.start(*serve_options(run.server))
        kills += wait_for_death(run)
    run.server.variables = {}
    run.kill_and_restart()
    run.figures["kills_at_the_point"] = kills
    run.expect(kills > 0, f"no process was killed at {point}")


def wait_for_death(run: Run) -> int:
    """Wait until the server, or one of its web processes, has died; return how many did."""
    assert run.server.process is not None
    before, until = descendants(run.server.process.pid), time.monotonic() + run.frame.fault
    while time.monotonic() < until:
        if run.server.process.poll() is not None:
            return 1
        dead = before - descendants(run.server.process.pid)
        if dead and run.server.database_url:
            return len(dead)
        run.pause(0.05)
    return 0
