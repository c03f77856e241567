"""HTTP clients for simulated workers: of a server on this machine (or another, if allowed), or of this process itself.

Only commands and drills use this module. A test checks that no page imports it, so that no request can make this
server call another one.
"""

import http.client
import io
import ipaddress
import json
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlsplit

from django.core.handlers.wsgi import WSGIHandler, WSGIRequest

KEEP_ALIVE_SECONDS = 3.0  # the server closes an idle connection after five
REQUEST_SECONDS = 30

CONNECTION_ERRORS = (OSError, http.client.HTTPException)


class AddressError(ValueError):
    """The URL is invalid or points to another machine."""


@dataclass(frozen=True)
class Response:
    status: int
    body: bytes
    location: str = ""
    retry_after: float = 0.0  # seconds

    def json(self) -> dict[str, Any]:
        return json.loads(self.body)

    def text(self) -> str:
        return self.body.decode()


class Client(Protocol):
    """Sends requests and keeps cookies."""

    def request(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> Response: ...

    def close(self) -> None: ...


class HttpClient:
    """A client of a running server over one keep-alive connection, which is reopened after an error."""

    def __init__(self, url: str, headers: Mapping[str, str] | None = None, *, anywhere: bool = False) -> None:
        origin = check_url(url, anywhere=anywhere)
        parts = urlsplit(origin)
        self.netloc, self.secure = parts.netloc, parts.scheme == "https"
        self.headers = {"Origin": origin, "Referer": f"{origin}/", **(headers or {})}
        self.cookies: dict[str, str] = {}
        self._connection: http.client.HTTPConnection | None = None
        self._last_used = 0.0

    def request(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> Response:
        sent = {**self.headers, **headers}
        if self.cookies:
            sent["Cookie"] = cookie_header(self.cookies)
        connection = self._connect()
        try:
            connection.request(method, path, body or None, sent)
            received = connection.getresponse()
            location, retry_after = received.headers.get("Location", ""), received.headers.get("Retry-After", "")
            pause = float(retry_after) if retry_after.isdigit() else 0.0
            response = Response(received.status, received.read(), location, pause)
        except CONNECTION_ERRORS:
            self.close()
            raise
        for line in received.headers.get_all("Set-Cookie", ()):
            name, _, value = line.split(";", 1)[0].partition("=")
            self.cookies[name] = value
        return response

    def _connect(self) -> http.client.HTTPConnection:
        if self._connection is None or time.monotonic() - self._last_used > KEEP_ALIVE_SECONDS:
            self.close()
            kind = http.client.HTTPSConnection if self.secure else http.client.HTTPConnection
            self._connection = kind(self.netloc, timeout=REQUEST_SECONDS)
        self._last_used = time.monotonic()
        return self._connection

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class InProcessClient:
    """A client of this application in the same process, with its middleware and CSRF checks.

    The request signals are not sent, so that the process keeps its database connection.
    """

    def __init__(self, application: WSGIHandler, host: str, *, secure: bool) -> None:
        self.application, self.host, self.scheme = application, host, "https" if secure else "http"
        self.cookies: dict[str, str] = {}

    def request(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> Response:
        request = WSGIRequest(self._environ(method, path, body, headers))
        response = self.application.get_response(request)
        self.cookies |= {name: morsel.coded_value for name, morsel in response.cookies.items()}
        return Response(response.status_code, b"".join(response), response.headers.get("Location", ""))

    def _environ(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> dict[str, Any]:
        """The WSGI environment (PEP 3333) of a request."""
        sent = {"Host": self.host, "Referer": f"{self.scheme}://{self.host}/", "Cookie": cookie_header(self.cookies)}
        sent |= {name: value for name, value in headers.items() if name != "Content-Type"}
        return {
            "REQUEST_METHOD": method,
            "SCRIPT_NAME": "",
            "PATH_INFO": path,
            "QUERY_STRING": "",
            "SERVER_NAME": self.host,
            "SERVER_PORT": "443" if self.scheme == "https" else "80",
            "SERVER_PROTOCOL": "HTTP/1.1",
            "REMOTE_ADDR": "127.0.0.1",
            "CONTENT_TYPE": headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "wsgi.version": (1, 0),
            "wsgi.url_scheme": self.scheme,
            "wsgi.input": io.BytesIO(body),
            "wsgi.errors": sys.stderr,
            "wsgi.multithread": False,
            "wsgi.multiprocess": False,
            "wsgi.run_once": False,
            **{f"HTTP_{name.upper().replace('-', '_')}": value for name, value in sent.items()},
        }

    def close(self) -> None:
        """There is no connection to close."""


def cookie_header(cookies: Mapping[str, str]) -> str:
    return "; ".join(f"{name}={value}" for name, value in cookies.items())


def check_url(url: str, *, anywhere: bool = False) -> str:
    """Return the origin of a server's URL; raise AddressError for another machine, unless `anywhere` is set."""
    try:
        parts = urlsplit(url)
        host, _port = parts.hostname, parts.port
    except ValueError:
        host = None
    if host is None or parts.scheme not in ("http", "https"):
        raise AddressError(f"{url} is not an address such as http://127.0.0.1:8000.")
    if not (anywhere or is_this_machine(host)):
        raise AddressError(f"{host} is another machine.")
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def is_this_machine(host: str) -> bool:
    """Whether the host is a loopback address or `localhost`; no other name is trusted."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
