"""D8, D10: answers and jobs arrive several times and out of order; responses are lost, and live pages freeze."""

import http.client
import json
import os
import signal
import time
from pathlib import Path
from typing import Any

from benchmarks.load.client import LoadClient
from benchmarks.load.installation import descendants
from benchmarks.load.sockets import viewers
from benchmarks.load.waiting import wait_until
from modelling.simulation.http_client import CONNECTION_ERRORS, Response, cookie_header
from tests.drills.faults.frame import PATIENCE, SLUG, Run

EVERY_TENTH, EVERY_FIFTH = 10, 5
SOCKETS = 100
CLOSE_SECONDS = 60
JOBS = """
import random
from config.celery import app
from modelling.updater.tasks import bring_up_to_date
for _ in range({count}):
    bring_up_to_date.apply_async(countdown=random.choice([0, 0, 0, 2, 6]))
"""


class RepeatingClient(LoadClient):
    """Sends every tenth answer three times, the last time after later ones."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.sent, self.late, self.differing = 0, list[tuple[dict[str, Any], Any]](), 0

    def post(self, answer: dict[str, Any]) -> Response | None:
        response = super().post(answer)
        self.sent += 1
        if response and response.status in (200, 201):
            first = response.json().get("saved")
            if self.sent % EVERY_TENTH == 0:
                self.repeat(answer, first)
                self.late.append((answer, first))
            elif self.late and self.sent % EVERY_TENTH == 7:
                self.repeat(*self.late.pop(0))
        return response

    def repeat(self, answer: dict[str, Any], first: Any) -> None:
        again = super().post(answer)
        if again and again.status < 500:
            self.differing += again.status != 200 or again.json().get("saved") != first


def delivered_twice(run: Run) -> None:
    """D8: answers and update jobs are delivered several times, late and out of order; each has one effect."""
    if run.server.database_url:
        run.server.run_python(JOBS.format(count=30))
    else:
        for _ in range(3):
            run.server.manage("update_models", "--once")
    run.pause(run.frame.fault)
    clients = [client for client in run.workforce.clients if isinstance(client, RepeatingClient)]
    run.figures["repeated"] = sum(client.sent // EVERY_TENTH for client in clients) * 2
    differing = sum(client.differing for client in clients)
    run.expect(not differing, f"{differing} repeated answers did not return the first receipt")


class DisconnectingClient(LoadClient):
    """Closes the connection of every fifth answer without reading the response, then sends the answer again."""

    sent = 0

    def post(self, answer: dict[str, Any]) -> Response | None:
        self.sent += 1
        if self.sent % EVERY_FIFTH:
            return super().post(answer)
        headers = {"Content-Type": "application/json", "X-CSRFToken": self.token, **self.headers}
        headers |= {"Cookie": cookie_header(self.cookies), "Referer": f"{self.headers['Origin']}/"}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request("POST", f"/s/{self.slug}/judgements/", json.dumps(answer), headers)
            time.sleep(self.rng.random() / 10)
        except CONNECTION_ERRORS:
            pass
        finally:
            connection.close()
        return None


def responses_lost(run: Run) -> None:
    """D10: every fifth response is lost, and 100 live pages stop reading; the server closes them within a minute."""
    base = open_files(run)
    with viewers(run.server, SLUG, SOCKETS) as watching:
        wait_until(lambda: watching.state()["open"] == SOCKETS, PATIENCE, "the live pages did not open")
        opened = open_files(run)
        os.kill(watching.process.pid, signal.SIGSTOP)
        closing = wait_until(
            lambda: open_files(run) <= opened - SOCKETS * 9 // 10, PATIENCE, "frozen pages were not closed"
        )
        os.kill(watching.process.pid, signal.SIGCONT)
    run.expect_within(CLOSE_SECONDS, "frozen_pages_closed_seconds", closing)
    run.figures["open_files"] = {"before": base, "with_pages": opened, "after": open_files(run)}
    run.expect(run.workforce.statuses()[200] > 0, "no repeated answer returned the first receipt (200)")


def open_files(run: Run) -> int:
    """Open files of all web processes."""
    assert run.server.process is not None
    processes = {run.server.process.pid, *descendants(run.server.process.pid)}
    return sum(len(list(Path(f"/proc/{pid}/fd").glob("*"))) for pid in processes)
