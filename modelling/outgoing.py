"""The one place from which Concord calls another server, and everything it refuses.

A name is looked up once; the address found is checked, connected to, and checked again on the open connection, so a
name that points elsewhere a moment later gains nothing. Only HTTPS, no redirect is followed, no proxy is asked, and of
the answer only the first line is read. All of it together may take a few seconds.
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

HTTPS = 443
SECONDS = 5.0  # for everything: look-up, connection, request and answer
LOOK_UP_SECONDS = 2.0
LONGEST_LINE = 1024
LONGEST_NAME = 253
NAT64 = ipaddress.ip_network("64:ff9b::/96")
# Of special use by IANA's registries, and not yet known as such to every release of Python.
SPECIAL = [
    ipaddress.ip_network(block)
    for block in ("192.0.0.0/24", "192.88.99.0/24", "64:ff9b:1::/48", "100::/64", "2001::/23", "5f00::/16", "fec0::/10")
]

_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_NAME = rf"(?:{_LABEL}\.)+(?=[a-z]){_LABEL}"  # the last part begins with a letter, so no number is a name
_URL = re.compile(rf"https://(?P<host>{_NAME})(?::(?P<port>[0-9]{{1,5}}))?(?P<path>/[!-~]*)?\Z")
_NOT_IN_PATHS = set('\\#"<>^`{|}')
_STATUS = re.compile(rb"HTTP/1\.[01] ([1-5][0-9]{2})(?: |\r|\n)")

BAD_ADDRESS = gettext_noop(
    "Write an address such as https://hooks.example.org/concord: https, a host name, and nothing before the name."
)
PRIVATE = gettext_noop("The name leads to an address inside a private network, which Concord never calls.")
UNKNOWN_NAME = gettext_noop("No server of this name was found.")
NO_ANSWER = gettext_noop("The server could not be reached, or did not answer in time.")
BAD_CERTIFICATE = gettext_noop("The server's certificate is not valid for its name.")
NOT_HTTP = gettext_noop("What came back was no answer of a web server.")

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class Refused(Exception):
    """Concord does not send to this address, now or later; the message says why."""


class Unreachable(Exception):
    """It did not work this time; the message says why."""


@dataclass(frozen=True)
class Target:
    host: str
    port: int
    path: str

    @classmethod
    def of(cls, url: str) -> "Target":
        """The parts of an address; Refused unless it is plain https with a host name, written the usual way."""
        scheme, _, rest = url.partition("://")
        found = _URL.match(f"{scheme.lower()}://{_lower_host(rest)}")
        if not found or len(found["host"]) > LONGEST_NAME or _NOT_IN_PATHS & set(found["path"] or ""):
            raise Refused(BAD_ADDRESS)
        port = int(found["port"] or HTTPS)
        if not 0 < port < 65_536:
            raise Refused(BAD_ADDRESS)
        return cls(found["host"], port, found["path"] or "/")

    @property
    def name(self) -> str:
        """As the Host header and an administrator's list say it: with the port only where that is unusual."""
        return self.host if self.port == HTTPS else f"{self.host}:{self.port}"


def _lower_host(rest: str) -> str:
    host, slash, path = rest.partition("/")
    return host.lower() + slash + path


def is_host_name(name: str) -> bool:
    return len(name) <= LONGEST_NAME and bool(re.fullmatch(_NAME, name))


def post(url: str, body: bytes, headers: dict[str, str]) -> int:
    """The status that the server answered with. Raises Refused or Unreachable, never anything else of the network."""
    target, ends = Target.of(url), time.monotonic() + SECONDS
    address = checked(look_up(target.host, target.port))
    try:
        with connected(address, target.port, _left(ends)) as plain:
            _check_peer(plain)
            plain.settimeout(_left(ends))
            with trust().wrap_socket(plain, server_hostname=target.host) as secure:
                return _ask(secure, target, body, headers, ends)
    except ssl.SSLCertVerificationError:
        raise Unreachable(BAD_CERTIFICATE) from None
    except (OSError, http.client.HTTPException):
        raise Unreachable(NO_ANSWER) from None


def look_up(host: str, port: int) -> list[str]:
    """The addresses of a name, asked for once; a name server that does not answer is not waited for long."""
    found: list[str] = []

    def ask() -> None:
        try:
            answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            return
        found.extend(str(answer[4][0]) for answer in answers)

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(LOOK_UP_SECONDS)
    if not found:
        raise Unreachable(UNKNOWN_NAME)
    return found


def checked(addresses: list[str]) -> Address:
    """The first of these addresses, if every one of them is public."""
    if not all(map(is_public, addresses)):
        raise Refused(PRIVATE)
    return _plain(addresses[0])


def is_public(address: str) -> bool:
    """Whether the address, and one that is wrapped in it, belongs to the open internet."""
    outer = _plain(address)
    return all(map(_is_open, (outer, *_inside(outer))))


def _is_open(address: Address) -> bool:
    special = address.is_multicast or address.is_reserved or any(address in block for block in SPECIAL)
    return address.is_global and not special


def _plain(address: str) -> Address:
    """An IPv4 address that is written as IPv6 is what it is."""
    given = ipaddress.ip_address(address)
    return getattr(given, "ipv4_mapped", None) or given


def _inside(address: Address) -> list[Address]:
    """The IPv4 address to which 6to4 or NAT64 would carry this one on."""
    if isinstance(address, ipaddress.IPv4Address):
        return []
    found: list[Address] = [address.sixtofour] if address.sixtofour else []
    return [*found, ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)] if address in NAT64 else found


def connected(address: Address, port: int, seconds: float) -> socket.socket:
    """A connection to exactly this address: no name is looked up any more."""
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
        raise Refused(PRIVATE)


def trust() -> ssl.SSLContext:
    """Certificates are checked against those the system trusts, for the name in the address."""
    return ssl.create_default_context()


def _ask(secure: ssl.SSLSocket, target: Target, body: bytes, headers: dict[str, str], ends: float) -> int:
    request = http.client.HTTPConnection(target.host, target.port)
    request.sock = secure
    secure.settimeout(_left(ends))
    usual = {"Host": target.name, "Connection": "close", "User-Agent": "Concord"}
    request.request("POST", target.path, body, {**headers, **usual})
    return _status(_first_line(secure, ends))


def _first_line(secure: ssl.SSLSocket, ends: float) -> bytes:
    line = b""
    while b"\n" not in line and len(line) < LONGEST_LINE:
        secure.settimeout(_left(ends))
        part = secure.recv(LONGEST_LINE - len(line))
        if not part:
            break
        line += part
    return line


def _status(line: bytes) -> int:
    found = _STATUS.match(line)
    if not found:
        raise Unreachable(NOT_HTTP)
    return int(found[1])


def _left(ends: float) -> float:
    """Seconds that are left of the few that a call may take."""
    left = ends - time.monotonic()
    if left <= 0:
        raise Unreachable(NO_ANSWER)
    return left
