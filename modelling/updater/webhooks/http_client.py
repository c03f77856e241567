"""The webhooks' HTTP client, hardened against server-side request forgery.

A host name is resolved once; the address is checked, connected to, and checked again on the open connection, which
defeats DNS rebinding. Only HTTPS is used, without redirects or proxies; only the response's status line is read; one
time limit covers everything.
"""

import http.client
import ipaddress
import re
import socket
import ssl
import threading
import time
from dataclasses import dataclass

from django.utils.translation import gettext_noop

from modelling.models.host_names import HOST_NAME, HTTPS_PORT, MAX_LENGTH, format_host

TIMEOUT = 5.0  # seconds for everything: resolution, connection, request and response
RESOLVE_TIMEOUT = 2.0
MAX_STATUS_LINE = 1024
NAT64 = ipaddress.ip_network("64:ff9b::/96")
# Reserved by IANA, but not known as such to all releases of Python.
RESERVED = [
    ipaddress.ip_network(block)
    for block in ("192.0.0.0/24", "192.88.99.0/24", "64:ff9b:1::/48", "100::/64", "2001::/23", "5f00::/16", "fec0::/10")
]

_URL = re.compile(rf"https://(?P<host>{HOST_NAME})(?::(?P<port>[0-9]{{1,5}}))?(?P<path>/[!-~]*)?\Z")
_FORBIDDEN_IN_PATH = set('\\#"<>^`{|}')
_STATUS = re.compile(rb"HTTP/1\.[01] ([1-5][0-9]{2})(?: |\r|\n)")

BAD_ADDRESS = gettext_noop(
    "Enter an address such as https://hooks.example.org/concord, with https and a host name but no user name."
)
PRIVATE = gettext_noop("The name resolves to an address in a private network, which Concord does not call.")
UNKNOWN_NAME = gettext_noop("The host name could not be resolved.")
NO_ANSWER = gettext_noop("The server could not be reached or did not answer in time.")
BAD_CERTIFICATE = gettext_noop("The server's certificate is not valid for its name.")
NOT_HTTP = gettext_noop("The server did not answer with valid HTTP.")

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class AddressRefused(Exception):
    """Concord never sends to this address. The message says why."""


class Unreachable(Exception):
    """The request failed and may be retried. The message says why."""


@dataclass(frozen=True)
class Target:
    host: str
    port: int
    path: str

    @classmethod
    def parse(cls, url: str) -> "Target":
        """Split a URL; raise AddressRefused unless it is https with a plain host name."""
        scheme, _, rest = url.partition("://")
        found = _URL.match(f"{scheme.lower()}://{_lower_host(rest)}")
        if not found or len(found["host"]) > MAX_LENGTH or _FORBIDDEN_IN_PATH & set(found["path"] or ""):
            raise AddressRefused(BAD_ADDRESS)
        port = int(found["port"] or HTTPS_PORT)
        if not 0 < port < 65_536:
            raise AddressRefused(BAD_ADDRESS)
        return cls(found["host"], port, found["path"] or "/")

    @property
    def name(self) -> str:
        return format_host(self.host, self.port)


def _lower_host(rest: str) -> str:
    host, slash, path = rest.partition("/")
    return host.lower() + slash + path


def post(url: str, body: bytes, headers: dict[str, str]) -> int:
    """Send a request and return the status; network errors are raised as AddressRefused or Unreachable."""
    target, deadline = Target.parse(url), time.monotonic() + TIMEOUT
    address = first_public_address(resolve(target.host, target.port))
    try:
        with connect(address, target.port, _seconds_left(deadline)) as plain:
            _check_peer(plain)
            plain.settimeout(_seconds_left(deadline))
            with tls_context().wrap_socket(plain, server_hostname=target.host) as secure:
                return _send_request(secure, target, body, headers, deadline)
    except ssl.SSLCertVerificationError:
        raise Unreachable(BAD_CERTIFICATE) from None
    except (OSError, http.client.HTTPException):
        raise Unreachable(NO_ANSWER) from None


def resolve(host: str, port: int) -> list[str]:
    """Resolve a host name in a thread, to limit the wait for a slow name server."""
    found: list[str] = []

    def look_up() -> None:
        try:
            answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            return
        found.extend(str(answer[4][0]) for answer in answers)

    thread = threading.Thread(target=look_up, daemon=True)
    thread.start()
    thread.join(RESOLVE_TIMEOUT)
    if not found:
        raise Unreachable(UNKNOWN_NAME)
    return found


def first_public_address(addresses: list[str]) -> Address:
    """Return the first address; raise AddressRefused unless all of them are public."""
    if not all(map(is_public, addresses)):
        raise AddressRefused(PRIVATE)
    return _parse_address(addresses[0])


def is_public(address: str) -> bool:
    """Whether an address, and an IPv4 address embedded in it, is globally reachable."""
    outer = _parse_address(address)
    return all(map(_is_global, (outer, *_embedded_addresses(outer))))


def _is_global(address: Address) -> bool:
    special = address.is_multicast or address.is_reserved or any(address in block for block in RESERVED)
    return address.is_global and not special


def _parse_address(address: str) -> Address:
    """Parse an address; an IPv4-mapped IPv6 address becomes IPv4."""
    parsed = ipaddress.ip_address(address)
    return getattr(parsed, "ipv4_mapped", None) or parsed


def _embedded_addresses(address: Address) -> list[Address]:
    """The IPv4 addresses that 6to4 or NAT64 would forward to."""
    if isinstance(address, ipaddress.IPv4Address):
        return []
    found: list[Address] = [address.sixtofour] if address.sixtofour else []
    return [*found, ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)] if address in NAT64 else found


def connect(address: Address, port: int, seconds: float) -> socket.socket:
    """Connect to exactly this address, without resolving a name again."""
    plain = socket.socket(socket.AF_INET if address.version == 4 else socket.AF_INET6, socket.SOCK_STREAM)
    try:
        plain.settimeout(seconds)
        plain.connect((str(address), port))
    except BaseException:
        plain.close()
        raise
    return plain


def _check_peer(plain: socket.socket) -> None:
    if not is_public(plain.getpeername()[0]):
        raise AddressRefused(PRIVATE)


def tls_context() -> ssl.SSLContext:
    """A TLS context that checks host names and verifies certificates against the system's trust store."""
    return ssl.create_default_context()


def _send_request(secure: ssl.SSLSocket, target: Target, body: bytes, headers: dict[str, str], deadline: float) -> int:
    request = http.client.HTTPConnection(target.host, target.port)
    request.sock = secure
    secure.settimeout(_seconds_left(deadline))
    own = {"Host": target.name, "Connection": "close", "User-Agent": "Concord"}
    request.request("POST", target.path, body, {**headers, **own})
    return _parse_status(_read_status_line(secure, deadline))


def _read_status_line(secure: ssl.SSLSocket, deadline: float) -> bytes:
    line = b""
    while b"\n" not in line and len(line) < MAX_STATUS_LINE:
        secure.settimeout(_seconds_left(deadline))
        part = secure.recv(MAX_STATUS_LINE - len(line))
        if not part:
            break
        line += part
    return line


def _parse_status(line: bytes) -> int:
    found = _STATUS.match(line)
    if not found:
        raise Unreachable(NOT_HTTP)
    return int(found[1])


def _seconds_left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise Unreachable(NO_ANSWER)
    return left
