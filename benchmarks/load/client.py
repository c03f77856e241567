"""A worker without a browser that logs every send and retries until the server is back."""

import time
import uuid
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from benchmarks.load.send_log import FAIL, OK, UNKNOWN, SendLog, payload_hash
from modelling.simulation.http_client import HttpClient, Response
from modelling.simulation.http_worker import HttpWorker, is_final

CHOICES = (["left", "right"] * 9) + ["tie", "skip"]
PATIENCE = 180


@dataclass
class ClientStats:
    """Seconds of each acknowledged send and of all sends, and the count of each status (0: no response)."""

    seconds: list[float] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)


def assignment_ids(task: dict[str, Any]) -> list[str]:
    """Return the assignments of a task in the order in which they are shown."""
    return [pair["assignment"] for pair in task["pairs"]]


class LoadClient(HttpWorker):
    """Joins a study and answers pairs with seeded random choices."""

    def __init__(
        self, port: int, slug: str, headers: Mapping[str, str], seed: int, send_log: SendLog | None = None
    ) -> None:
        self.port, self.headers, self.send_log = port, dict(headers), send_log
        self.server = HttpClient(f"http://127.0.0.1:{port}", headers)
        super().__init__(self.server, slug, patience=PATIENCE)
        self.rng = Random(seed)
        self.stats = ClientStats()

    @property
    def cookies(self) -> dict[str, str]:
        return self.server.cookies

    def answer_next(self) -> bool:
        """Answer the next pair and wait for the final response; return False when no pair is left."""
        pair = self.next_pair()
        if pair is None:
            return False
        answer = {"uuid": str(uuid.UUID(int=self.rng.getrandbits(128), version=4)), "assignment": pair["assignment"]}
        answer["choice"] = self.rng.choice(CHOICES)
        answer |= {"skip_reason": "both_poor"} if answer["choice"] == "skip" else {}
        self.answer(answer)
        return True

    def send(self, answer: dict[str, Any]) -> Response | None:
        """POST one answer, logging it before the send and after the response."""
        self._log(answer, UNKNOWN)
        began = time.perf_counter()
        response = self.post(answer)
        self.stats.waits.append(time.perf_counter() - began)
        self.stats.statuses[response.status if response else 0] += 1
        if response and response.status < 300:
            self.stats.seconds.append(time.perf_counter() - began)
            self._log(answer, OK)
        elif response and is_final(response):
            self._log(answer, FAIL)
        return response

    def post(self, answer: dict[str, Any]) -> Response | None:
        """POST one answer without logging it; None if the connection failed."""
        return super().send(answer)

    def _log(self, answer: dict[str, Any], outcome: str) -> None:
        if self.send_log is not None:
            payload = payload_hash(answer["assignment"], answer["choice"], answer.get("skip_reason", ""))
            self.send_log.append(answer["uuid"], payload, outcome)
