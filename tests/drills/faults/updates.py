"""D3, D11: updaters are killed at every point of an update, and run out of memory."""

import os
import signal
import subprocess

from benchmarks.load import database
from benchmarks.load.installation import Installation, process_cpu_seconds
from benchmarks.load.waiting import wait_until
from tests.drills.faults.frame import FULL, PATIENCE, SLUG, Run, serve_options
from tests.drills.scenarios.updater import IN_FILES, POINTS

LARGE, LARGE_ITEMS = "large", 2500  # more items would be refused before anything is computed
KILLS = 10
IDLE_SHARE = 0.05  # of a core, when nothing is due
BEAT = "SELECT MAX(seen_at) FROM modelling_updaterbeat"
HEADROOM = 64 * 2**20  # bytes of address space above what the small study needs
STATE = """
SELECT u.words, u.attempts, u.not_before IS NOT NULL FROM modelling_updatestate u
JOIN annotation_project p ON p.id = u.project_id WHERE p.slug = '{slug}'
"""
MAKE_LARGE = f"""
from benchmarks.load.study import make_study
from tests.modelling.samples.histories import all_pairs, answer
answer(make_study({LARGE!r}, items={LARGE_ITEMS}, update_batch=1), all_pairs(2, items=6))
"""
POSTPONE_LARGE = f"""
from datetime import timedelta
from django.utils import timezone
from modelling.models import UpdateState
UpdateState.objects.filter(project__slug={LARGE!r}).update(not_before=timezone.now() + timedelta(days=1))
"""


def start_without_updater(server: Installation) -> None:
    server.start(*serve_options(server), *(() if server.database_url else ("--no-updater",)))


def killed_during_updates(run: Run) -> None:
    """D3: kill the updater at each point of an update; readers see whole versions, and the next updater repeats it."""
    points = [point for point in POINTS if not run.server.database_url or point not in IN_FILES]
    for _ in range(1 if run.frame.name == "short" else run.frame.repeats):
        for point in points:
            updater = run.server.start_updater(faults=f"point={point},action=exit9,nth=2")
            wait_until(lambda updater=updater: updater.poll() is not None, PATIENCE, f"no kill at {point}")
            run.expect(updater.returncode == -signal.SIGKILL, f"the updater ended with {updater.returncode} at {point}")
            expire_leases(run)
    run.figures["points"] = len(points)
    run.server.start_updater()
    run.expect_within(40, "recovery_seconds", run.wait_for_model())
    left = list(run.server.folder.glob("snapshots/*/*.tmp"))
    run.expect(not left, f"{len(left)} temporary files were left")


def out_of_memory(run: Run) -> None:
    """D11: an updater at its memory limit reports the study and goes on; one killed in a row pauses the study."""
    updater = run.server.start_updater()
    run.wait_for_model()
    limit = address_space(updater) + HEADROOM
    end(updater)
    expire_leases(run)
    run.server.run_python(MAKE_LARGE)
    limited = run.server.start_updater(wrapper=("prlimit", f"--as={limit}"))
    wait_until(lambda: "memory" in state(run, LARGE)[0], PATIENCE, "the failure was not reported")
    run.figures["message"] = state(run, LARGE)[0]
    run.wait_for_model()
    run.expect(limited.poll() is None, "the updater ended")
    end(limited)
    run.server.run_python(POSTPONE_LARGE)  # without the limit its fit would succeed, and take a core for minutes
    killed_in_a_row(run)


def killed_in_a_row(run: Run) -> None:
    """Kill updaters after their fit until the study is paused; then an updater uses hardly any CPU."""
    kills = 0
    while not state(run, SLUG)[2] and kills < KILLS:
        updater = run.server.start_updater(faults="point=after_fit,action=exit9,nth=1")
        wait_until(lambda u=updater: u.poll() is not None or state(run, SLUG)[2], PATIENCE, "not killed")
        end(updater)
        expire_leases(run)
        kills += 1
    _message, attempts, paused = state(run, SLUG)
    run.figures["updaters_until_paused"] = kills
    run.expect(bool(paused) and attempts == 3, f"{attempts} attempts, paused: {bool(paused)}")
    idle = run.server.start_updater()
    for _ in range(2):  # the second beat comes some passes after the start
        last = database.query(run.server.database, BEAT)
        wait_until(lambda last=last: database.query(run.server.database, BEAT) != last, PATIENCE, "no beat", 0.5)
    share = cpu_share(run, idle, run.frame.fault)
    run.figures["cpu_share_while_paused"] = round(share, 3)
    run.expect(share < IDLE_SHARE or run.frame is not FULL, f"the paused updater uses {share:.0%} of a core")
    run.server.run_command("update_models", "--project", SLUG)


def cpu_share(run: Run, process: subprocess.Popen[bytes], seconds: float) -> float:
    """The share of a core that the process uses in the next seconds."""
    before = process_cpu_seconds(process.pid)
    run.pause(seconds)
    return (process_cpu_seconds(process.pid) - before) / seconds


def expire_leases(run: Run) -> None:
    """Let the next updater begin at once, instead of 30 seconds after a kill."""
    run.server.run_python(
        "from django.utils import timezone; from modelling.models import UpdateState; "
        "UpdateState.objects.exclude(owner='').update(lease_until=timezone.now())"
    )


def state(run: Run, slug: str) -> tuple[str, int, bool]:
    rows = database.query(run.server.database, STATE.format(slug=slug))
    return rows[0] if rows else ("", 0, False)  # type: ignore[return-value]


def address_space(process: subprocess.Popen[bytes]) -> int:
    """The largest address space of the process so far, in bytes."""
    with open(f"/proc/{process.pid}/status") as status:
        fields = dict(line.split(":", 1) for line in status if ":" in line)
    return int(fields["VmPeak"].split()[0]) * 1024


def end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
