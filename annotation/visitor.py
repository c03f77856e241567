"""One worker without a browser: joins by the real pages, answers as judge.js does, sends until acknowledged."""

import json
import re
import threading
import time
from collections.abc import Iterator
from html import unescape
from typing import Any
from urllib.parse import urlencode

from annotation.doors import Door, LostContact, Reply

TASK = re.compile(r'<script id="task" type="application/json">(.*?)</script>', re.DOTALL)
TOKEN = re.compile(r'(?:data-csrf|name="csrfmiddlewaretoken" value)="([^"]+)"')
TIE_OFFERED = 'data-choice="tie"'
FORM, JSON = "application/x-www-form-urlencoded", "application/json"
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 0.5
PATIENCE = 60


class GaveUpError(Exception):
    """The server was away, or refused, for longer than anybody would wait."""


class NoStudyError(GaveUpError):
    """The address leads to no study."""


class Visitor:
    """A worker's way through a study: welcome, consent, one pair after the other."""

    def __init__(self, door: Door, slug: str, *, patience: float = PATIENCE, simulated: bool = False) -> None:
        self.door, self.slug, self.patience, self.simulated = door, slug, patience, simulated
        self.token, self.pairs, self.tie_offered = "", list[dict[str, Any]](), False

    def request(self, method: str, path: str, body: bytes = b"", kind: str = "") -> Reply:
        return self.door.request(method, path, body, {"Content-Type": kind, "X-CSRFToken": self.token} if kind else {})

    def close(self) -> None:
        self.door.close()

    def persistently(self, method: str, path: str, body: bytes = b"", kind: str = "") -> Reply:
        """The first answer that is neither a breakdown nor a plea for patience, however long the server was away."""
        for _ in patiently(self.patience):
            try:
                reply = self.request(method, path, body, kind)
            except LostContact:
                continue
            if is_final(reply):
                return reply
        raise GaveUpError(f"{path} was not answered for {self.patience:g} seconds")

    def join(self) -> None:
        """Consents on the welcome page, saying so if it is simulated; the first pairs are here."""
        welcome = self.persistently("GET", f"/s/{self.slug}/")
        if welcome.status == 404:
            raise NoStudyError(f"there is no study at /s/{self.slug}/")
        if not TOKEN.search(welcome.text()):
            raise GaveUpError(f"nobody can join /s/{self.slug}/ now (status {welcome.status}): is the study open?")
        self.token = self.token_on(welcome.text())
        given = {"consent": "on", "csrfmiddlewaretoken": self.token} | ({"simulated": "yes"} if self.simulated else {})
        joined = self.persistently("POST", f"/s/{self.slug}/join/", urlencode(given).encode(), FORM)
        if joined.status != 302:
            raise GaveUpError(f"joining was answered {joined.status}: {joined.text()[:500]}")
        self.reload()

    def reload(self) -> None:
        """The page is fetched anew, and with it the pairs to answer."""
        page = self.persistently("GET", f"/s/{self.slug}/").text()
        task = TASK.search(page)
        self.pairs = json.loads(task[1])["pairs"] if task else []
        if task:
            self.token, self.tie_offered = self.token_on(page), TIE_OFFERED in page

    @staticmethod
    def token_on(page: str) -> str:
        found = TOKEN.search(page)
        if found is None:
            raise GaveUpError(f"no token on the page: {page[:500]}")
        return unescape(found[1])

    def next_pair(self) -> dict[str, Any] | None:
        """The pair to answer now; None when there is none left."""
        if not self.pairs:
            self.reload()
        return self.pairs[0] if self.pairs else None

    def answer(self, answer: dict[str, Any]) -> Reply:
        """The answer is acknowledged or refused, and the next pairs are here."""
        reply = self.send_until_answered(answer)
        body = reply.json()
        self.pairs = body["next"]["pairs"] if body.get("next") else []
        return reply

    def send_until_answered(self, answer: dict[str, Any]) -> Reply:
        """The same UUID and payload again and again, until the server has spoken."""
        for _ in patiently(self.patience):
            reply = self.send(answer)
            if reply is not None and is_final(reply):
                return reply
        raise GaveUpError(f"judgement {answer['uuid']} was not answered for {self.patience:g} seconds")

    def send(self, answer: dict[str, Any]) -> Reply | None:
        """One POST; None when the answer did not come."""
        try:
            return self.request("POST", f"/s/{self.slug}/judgements/", json.dumps(answer).encode(), JSON)
        except LostContact:
            return None


def is_final(reply: Reply) -> bool:
    return reply.status < 500 and reply.status != 429


def patiently(seconds: float) -> Iterator[None]:
    """Attempts with a growing pause between them, until patience ends."""
    pause, began = FIRST_PAUSE, time.monotonic()
    while time.monotonic() - began < seconds:
        yield
        threading.Event().wait(pause)
        pause = min(2 * pause, LONGEST_PAUSE)
