"""One worker without a browser: joins by the real pages, answers as judge.js does, sends until acknowledged."""

import http.client
import json
import re
import threading
import time
import uuid
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import unescape
from random import Random
from typing import Any
from urllib.parse import urlencode

from tests.drills.ledger import FAIL, OK, UNKNOWN, Ledger, payload_hash

TASK = re.compile(r'<script id="task" type="application/json">(.*?)</script>', re.DOTALL)
TOKEN = re.compile(r'(?:data-csrf|name="csrfmiddlewaretoken" value)="([^"]+)"')
CHOICES = (["left", "right"] * 9) + ["tie", "skip"]
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 0.5
KEEP_ALIVE = 3.0  # seconds; the server closes an idle connection after five
REQUEST_SECONDS, PATIENCE = 30, 180

LostContact = (OSError, http.client.HTTPException)


class GaveUpError(Exception):
    """The server was away, or refused, for longer than anybody would wait."""


@dataclass(frozen=True)
class Reply:
    status: int
    body: bytes
    location: str = ""

    def json(self) -> dict[str, Any]:
        return json.loads(self.body)  # type: ignore[no-any-return]

    def text(self) -> str:
        return self.body.decode()


@dataclass
class Record:
    """What one client saw: the seconds of each acknowledged send, and each status with 0 for no answer."""

    seconds: list[float] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)


def pairs_of(task: dict[str, Any]) -> list[str]:
    """The assignments a task holds, in the order in which they are to be answered."""
    return [pair["assignment"] for pair in task["pairs"]]


class Client:
    def __init__(
        self, port: int, slug: str, headers: Mapping[str, str], seed: int, ledger: Ledger | None = None
    ) -> None:
        self.port, self.slug, self.headers, self.ledger = port, slug, dict(headers), ledger
        self.rng = Random(seed)
        self.cookies: dict[str, str] = {}
        self.token = ""
        self.pairs: list[str] = []
        self.record = Record()
        self._connection: http.client.HTTPConnection | None = None
        self._used = 0.0

    # HTTP ------------------------------------------------------------------------------------------------------------

    def request(self, method: str, path: str, body: bytes = b"", kind: str = "") -> Reply:
        """One request over a kept connection; a failed one is closed, so that the next starts afresh."""
        headers = self.headers | ({"Content-Type": kind, "X-CSRFToken": self.token} if kind else {})
        if self.cookies:
            headers["Cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        connection = self._connect()
        try:
            connection.request(method, path, body or None, headers)
            response = connection.getresponse()
            reply = Reply(response.status, response.read(), response.headers.get("Location", ""))
        except LostContact:
            self.close()
            raise
        for line in response.headers.get_all("Set-Cookie", ()):
            name, _, value = line.split(";", 1)[0].partition("=")
            self.cookies[name] = value
        return reply

    def _connect(self) -> http.client.HTTPConnection:
        if self._connection is None or time.monotonic() - self._used > KEEP_ALIVE:
            self.close()
            self._connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=REQUEST_SECONDS)
        self._used = time.monotonic()
        return self._connection

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def persistently(self, method: str, path: str, body: bytes = b"", kind: str = "") -> Reply:
        """The first answer below 500, however long the server was away."""
        for _ in patiently():
            try:
                reply = self.request(method, path, body, kind)
            except LostContact:
                continue
            if reply.status < 500:
                return reply
        raise GaveUpError(path)

    # The worker's way ------------------------------------------------------------------------------------------------

    def join(self) -> None:
        """Consents on the welcome page; the first pairs are here."""
        self.token = self.token_on(self.persistently("GET", f"/s/{self.slug}/").text())
        form = urlencode({"consent": "on", "csrfmiddlewaretoken": self.token}).encode()
        joined = self.persistently("POST", f"/s/{self.slug}/join/", form, "application/x-www-form-urlencoded")
        if joined.status != 302:
            raise GaveUpError(f"joining was answered {joined.status}: {joined.text()[:500]}")
        self.reload()

    def reload(self) -> None:
        """The page is fetched anew, and with it the pairs to answer."""
        page = self.persistently("GET", f"/s/{self.slug}/").text()
        task = TASK.search(page)
        self.pairs = pairs_of(json.loads(task[1])) if task else []
        if task:
            self.token = self.token_on(page)

    @staticmethod
    def token_on(page: str) -> str:
        found = TOKEN.search(page)
        if found is None:
            raise GaveUpError(f"no token on the page: {page[:500]}")
        return unescape(found[1])

    def answer_next(self) -> bool:
        """The next pair is answered and acknowledged or refused; False when there is none."""
        if not self.pairs:
            self.reload()
        if not self.pairs:
            return False
        answer = {"uuid": str(uuid.UUID(int=self.rng.getrandbits(128), version=4)), "assignment": self.pairs[0]}
        answer["choice"] = self.rng.choice(CHOICES)
        answer |= {"skip_reason": "both_poor"} if answer["choice"] == "skip" else {}
        reply = self.send_until_answered(answer)
        body = reply.json()
        self.pairs = pairs_of(body["next"]) if body.get("next") else []
        return True

    def send_until_answered(self, answer: dict[str, str]) -> Reply:
        """The same UUID and payload again and again, each send in the book, until the server has spoken."""
        for _ in patiently():
            reply = self.send(answer)
            if reply is not None and reply.status < 500 and reply.status != 429:
                return reply
        raise GaveUpError(f"judgement {answer['uuid']} was never answered")

    def send(self, answer: dict[str, str]) -> Reply | None:
        """One POST; None when the answer did not come."""
        self._note(answer, UNKNOWN)
        began = time.perf_counter()
        try:
            reply = self.request("POST", f"/s/{self.slug}/judgements/", json.dumps(answer).encode(), "application/json")
        except LostContact:
            self.record.statuses[0] += 1
            return None
        self.record.statuses[reply.status] += 1
        if reply.status < 300:
            self.record.seconds.append(time.perf_counter() - began)
            self._note(answer, OK)
        elif reply.status < 500 and reply.status != 429:
            self._note(answer, FAIL)
        return reply

    def _note(self, answer: dict[str, str], outcome: str) -> None:
        if self.ledger is not None:
            payload = payload_hash(answer["assignment"], answer["choice"], answer.get("skip_reason", ""))
            self.ledger.append(answer["uuid"], payload, outcome)


def patiently() -> Any:
    """Attempts with a growing pause between them, until patience ends."""
    pause, began = FIRST_PAUSE, time.monotonic()
    while time.monotonic() - began < PATIENCE:
        yield
        threading.Event().wait(pause)
        pause = min(2 * pause, LONGEST_PAUSE)
