"""A worker without a browser (annotation/visitor.py) that keeps a book of every send and waits through kills."""

import time
import uuid
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from annotation.doors import HttpDoor, Reply
from annotation.visitor import Visitor, is_final
from tests.drills.ledger import FAIL, OK, UNKNOWN, Ledger, payload_hash

CHOICES = (["left", "right"] * 9) + ["tie", "skip"]
PATIENCE = 180


@dataclass
class Record:
    """What one client saw: the seconds of each acknowledged send, and each status with 0 for no answer."""

    seconds: list[float] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)


def pairs_of(task: dict[str, Any]) -> list[str]:
    """The assignments a task holds, in the order in which they are to be answered."""
    return [pair["assignment"] for pair in task["pairs"]]


class Client(Visitor):
    def __init__(
        self, port: int, slug: str, headers: Mapping[str, str], seed: int, ledger: Ledger | None = None
    ) -> None:
        self.port, self.headers, self.ledger = port, dict(headers), ledger
        self.server = HttpDoor(f"http://127.0.0.1:{port}", headers)
        super().__init__(self.server, slug, patience=PATIENCE)
        self.rng = Random(seed)
        self.record = Record()

    @property
    def cookies(self) -> dict[str, str]:
        return self.server.cookies

    def answer_next(self) -> bool:
        """The next pair is answered and acknowledged or refused; False when there is none."""
        pair = self.next_pair()
        if pair is None:
            return False
        answer = {"uuid": str(uuid.UUID(int=self.rng.getrandbits(128), version=4)), "assignment": pair["assignment"]}
        answer["choice"] = self.rng.choice(CHOICES)
        answer |= {"skip_reason": "both_poor"} if answer["choice"] == "skip" else {}
        self.answer(answer)
        return True

    def send(self, answer: dict[str, Any]) -> Reply | None:
        """One POST, in the book before it is sent and after it was answered."""
        self._note(answer, UNKNOWN)
        began = time.perf_counter()
        reply = super().send(answer)
        self.record.statuses[reply.status if reply else 0] += 1
        if reply and reply.status < 300:
            self.record.seconds.append(time.perf_counter() - began)
            self._note(answer, OK)
        elif reply and is_final(reply):
            self._note(answer, FAIL)
        return reply

    def _note(self, answer: dict[str, Any], outcome: str) -> None:
        if self.ledger is not None:
            payload = payload_hash(answer["assignment"], answer["choice"], answer.get("skip_reason", ""))
            self.ledger.append(answer["uuid"], payload, outcome)
