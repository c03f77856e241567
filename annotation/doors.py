"""Where a visitor's requests go: to this process itself, or to a server on this machine, and no other unless meant.

Commands and drills use it. No page does: a test holds that, so nobody can make a server call another.
"""

import http.client
import ipaddress
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlsplit

KEEP_ALIVE = 3.0  # seconds; the server closes an idle connection after five
REQUEST_SECONDS = 30

LostContact = (OSError, http.client.HTTPException)


class WrongAddressError(ValueError):
    """The address is none, or leads to another machine; the message says which."""


@dataclass(frozen=True)
class Reply:
    status: int
    body: bytes
    location: str = ""

    def json(self) -> dict[str, Any]:
        return json.loads(self.body)

    def text(self) -> str:
        return self.body.decode()


class Door(Protocol):
    """Where requests go. It remembers cookies, as a browser does."""

    def request(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> Reply: ...

    def close(self) -> None: ...


class HttpDoor:
    """A server, over one kept connection; a failed one is closed, so that the next request starts afresh."""

    def __init__(self, url: str, headers: Mapping[str, str] | None = None, *, anywhere: bool = False) -> None:
        address = checked_address(url, anywhere=anywhere)
        parts = urlsplit(address)
        self.netloc, self.secure = parts.netloc, parts.scheme == "https"
        self.headers = {"Origin": f"{parts.scheme}://{parts.netloc}", "Referer": f"{address}/", **(headers or {})}
        self.cookies: dict[str, str] = {}
        self._connection: http.client.HTTPConnection | None = None
        self._used = 0.0

    def request(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> Reply:
        sent = {**self.headers, **headers}
        if self.cookies:
            sent["Cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        connection = self._connect()
        try:
            connection.request(method, path, body or None, sent)
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
            kind = http.client.HTTPSConnection if self.secure else http.client.HTTPConnection
            self._connection = kind(self.netloc, timeout=REQUEST_SECONDS)
        self._used = time.monotonic()
        return self._connection

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class InProcessDoor:
    """The application itself, in this process, with its middleware and its CSRF check: no server is needed."""

    def __init__(self, host: str, *, secure: bool) -> None:
        from django.test import Client  # here, so that only who needs it loads it

        self.secure, self.headers = secure, {"host": host, "referer": f"http{'s' * secure}://{host}/"}
        self.client = Client(enforce_csrf_checks=True, raise_request_exception=False)

    def request(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> Reply:
        kind = headers.get("Content-Type", "application/octet-stream")
        sent = {**self.headers, **{name: value for name, value in headers.items() if name != "Content-Type"}}
        response = self.client.generic(method, path, body, kind, secure=self.secure, headers=sent)
        return Reply(response.status_code, b"".join(response), response.headers.get("Location", ""))

    def close(self) -> None:
        """There is no connection to close."""


def checked_address(url: str, *, anywhere: bool = False) -> str:
    """Scheme, host and port of a server; WrongAddressError for another machine, unless that is really meant."""
    try:
        parts = urlsplit(url)
        host, _port = parts.hostname, parts.port
    except ValueError:
        host = None
    if host is None or parts.scheme not in ("http", "https"):
        raise WrongAddressError(f"An address such as http://127.0.0.1:8000 is wanted, not {url}.")
    if not (anywhere or is_this_machine(host)):
        raise WrongAddressError(f"{host} is another machine.")
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def is_this_machine(host: str) -> bool:
    """By its address, or the one name that always means it; no other name is trusted."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
