"""A worker without a browser: joins through the real pages, answers like judge.js and resends until acknowledged."""

import json
import re
import threading
import time
from collections.abc import Iterator
from html import unescape
from typing import Any
from urllib.parse import urlencode

from modelling.simulation.http_client import CONNECTION_ERRORS, Client, Response

TASK = re.compile(r'<script id="task" type="application/json">(.*?)</script>', re.DOTALL)
TOKEN = re.compile(r'(?:data-csrf|name="csrfmiddlewaretoken" value)="([^"]+)"')
TIE_OFFERED = 'data-choice="tie"'
FORM, JSON = "application/x-www-form-urlencoded", "application/json"
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 0.5
PATIENCE = 60


class SimulationError(Exception):
    """The server did not respond in time or does not let the worker take part."""


class StudyNotFound(SimulationError):
    """There is no study at this address."""


class HttpWorker:
    """A worker's session in a study: welcome page, consent, one pair after the other."""

    def __init__(self, client: Client, slug: str, *, patience: float = PATIENCE, simulated: bool = False) -> None:
        self.client, self.slug, self.patience, self.simulated = client, slug, patience, simulated
        self.pauses = (FIRST_PAUSE, LONGEST_PAUSE)
        self.token, self.pairs, self.tie_offered = "", list[dict[str, Any]](), False

    def attempts(self) -> Iterator["Attempt"]:
        return retries(self.patience, *self.pauses)

    def request(self, method: str, path: str, body: bytes = b"", content_type: str = "") -> Response:
        headers = {"Content-Type": content_type, "X-CSRFToken": self.token} if content_type else {}
        return self.client.request(method, path, body, headers)

    def close(self) -> None:
        self.client.close()

    def request_with_retry(self, method: str, path: str, body: bytes = b"", content_type: str = "") -> Response:
        """Repeat the request until the response is final; raise SimulationError after `patience` seconds."""
        for attempt in self.attempts():
            try:
                response = self.request(method, path, body, content_type)
            except CONNECTION_ERRORS:
                continue
            if is_final(response):
                return response
            attempt.wait_for(response)
        raise SimulationError(f"{path} did not respond for {self.patience:g} seconds")

    def join(self) -> None:
        """Consent on the welcome page, declare whether this worker is simulated, and load the first pairs."""
        welcome = self.request_with_retry("GET", f"/s/{self.slug}/")
        if welcome.status == 404:
            raise StudyNotFound(f"there is no study at /s/{self.slug}/")
        if not TOKEN.search(welcome.text()):
            raise SimulationError(f"/s/{self.slug}/ cannot be joined (status {welcome.status}): is the study open?")
        self.token = self.find_token(welcome.text())
        form = {"consent": "on", "csrfmiddlewaretoken": self.token} | ({"simulated": "yes"} if self.simulated else {})
        joined = self.request_with_retry("POST", f"/s/{self.slug}/join/", urlencode(form).encode(), FORM)
        if joined.status != 302:
            raise SimulationError(f"joining failed with status {joined.status}: {joined.text()[:500]}")
        self.reload()

    def reload(self) -> None:
        """Fetch the page again, with the pairs to answer."""
        page = self.request_with_retry("GET", f"/s/{self.slug}/").text()
        task = TASK.search(page)
        self.pairs = json.loads(task[1])["pairs"] if task else []
        if task:
            self.token, self.tie_offered = self.find_token(page), TIE_OFFERED in page

    @staticmethod
    def find_token(page: str) -> str:
        match = TOKEN.search(page)
        if match is None:
            raise SimulationError(f"the page has no CSRF token: {page[:500]}")
        return unescape(match[1])

    def next_pair(self) -> dict[str, Any] | None:
        """The pair to answer now; None if none is left."""
        if not self.pairs:
            self.reload()
        return self.pairs[0] if self.pairs else None

    def answer(self, answer: dict[str, Any]) -> Response:
        """Send the answer until it is acknowledged or refused, and take the next pairs from the response."""
        response = self.send_until_answered(answer)
        body = response.json()
        self.pairs = body["next"]["pairs"] if body.get("next") else []
        return response

    def send_until_answered(self, answer: dict[str, Any]) -> Response:
        """Send the same UUID and payload until the response is final; raise SimulationError after `patience`."""
        for attempt in self.attempts():
            response = self.send(answer)
            if response is not None and is_final(response):
                return response
            attempt.wait_for(response)
        raise SimulationError(f"judgement {answer['uuid']} was not acknowledged for {self.patience:g} seconds")

    def send(self, answer: dict[str, Any]) -> Response | None:
        """Send one POST; None if the connection failed."""
        try:
            return self.request("POST", f"/s/{self.slug}/judgements/", json.dumps(answer).encode(), JSON)
        except CONNECTION_ERRORS:
            return None


def is_final(response: Response) -> bool:
    return response.status < 500 and response.status != 429


class Attempt:
    """One attempt of several; `pause` is the time until the next one."""

    def __init__(self, pause: float) -> None:
        self.pause = pause

    def wait_for(self, response: Response | None) -> None:
        """Lengthen the pause if the response has a Retry-After header."""
        if response is not None:
            self.pause = max(self.pause, response.retry_after)


def retries(seconds: float, first: float, longest: float) -> Iterator[Attempt]:
    """Yield attempts for this many seconds, with growing pauses between them."""
    pause, began = first, time.monotonic()
    while time.monotonic() - began < seconds:
        attempt = Attempt(pause)
        yield attempt
        threading.Event().wait(attempt.pause)
        pause = min(2 * pause, longest)
