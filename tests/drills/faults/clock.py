"""D7: the clock of the server's processes jumps by an hour, and back across leases."""

import http.client
import json
import shutil
import struct
import subprocess
from pathlib import Path

from benchmarks.load.installation import Installation
from benchmarks.load.sockets import SESSIONS
from tests.drills.faults.frame import SLUG, Run, start

JUMPS = (3600, -3600, 0, -90)  # seconds from the true time; a lease lasts longer than 90 seconds
SOURCE = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
static volatile long long *offset;
__attribute__((constructor)) static void map_offset(void) {
    int file = open(getenv("CLOCK_OFFSET"), O_RDONLY);
    void *found = mmap(0, sizeof(long long), PROT_READ, MAP_SHARED, file, 0);
    if (found != MAP_FAILED) offset = found;
    close(file);
}
int clock_gettime(clockid_t id, struct timespec *now) {
    int result = syscall(SYS_clock_gettime, id, now);
    if (!result && id == CLOCK_REALTIME && offset) now->tv_sec += *offset;
    return result;
}
int gettimeofday(struct timeval *now, void *zone) {
    struct timespec exact;
    int result = clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec; now->tv_usec = exact.tv_nsec / 1000;
    return result;
}
time_t time(time_t *stored) {
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (stored) *stored = exact.tv_sec;
    return exact.tv_sec;
}
"""


def is_possible() -> bool:
    return shutil.which("cc") is not None


def start_with_clock(server: Installation) -> None:
    """Start all processes with a clock that follows an offset in a file."""
    source, library, offset = server.folder / "clock.c", server.folder / "clock.so", server.folder / "clock"
    source.write_text(SOURCE)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    set_offset(offset, 0)
    server.variables = {"LD_PRELOAD": str(library), "CLOCK_OFFSET": str(offset)}
    start(server)


def set_offset(file: Path, seconds: int) -> None:
    with file.open("r+b" if file.exists() else "wb") as opened:
        opened.write(struct.pack("q", seconds))


def clock_jumps(run: Run) -> None:
    """D7: jump forward and back; no one is logged out, versions follow the sequence, and the model catches up."""
    made = run.server.run_python(SESSIONS.format(slug=SLUG, users=1, name="viewer"))
    (cookie,) = json.loads(made.strip().splitlines()[-1])
    refused = {}
    for seconds in JUMPS:
        set_offset(run.server.folder / "clock", seconds)
        statuses = run.statuses_during(lambda: run.pause(run.frame.fault / len(JUMPS)))
        if not set(statuses) <= {200, 201, 429, 503}:  # the last two if the machine is busy
            refused[seconds] = statuses
        status = page_status(run, cookie)
        run.expect(status == 200, f"the session was refused ({status}) after a jump to {seconds} s")
    run.expect(not refused, f"answers failed after jumps: {refused}")
    set_offset(run.server.folder / "clock", 0)
    run.figures["jumps"] = list(JUMPS)
    run.expect_within(60, "model_after_jumps_seconds", run.wait_for_model())


def page_status(run: Run, cookie: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", run.server.port, timeout=30)
    try:
        connection.request("GET", f"/projects/{SLUG}/", headers={**run.server.headers, "Cookie": cookie})
        return connection.getresponse().status
    finally:
        connection.close()
