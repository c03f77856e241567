"""The client's address: the connection's, or the one that our trusted proxies report.

Everything that counts or records addresses calls `client_address`. Without the setting TRUSTED_PROXIES the header
X-Forwarded-For is ignored, because any client can send it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest

IPV6_PREFIX = 64  # one subscriber's network, in which they can use any address
INVALID = (
    "TRUSTED_PROXIES must be the number of proxies in front of Concord, such as 1, "
    "or their networks, such as 10.0.0.0/8,127.0.0.1."
)


@dataclass(frozen=True)
class TrustedProxies:
    """The proxies whose X-Forwarded-For is trusted, given as a number or as networks."""

    count: int = 0
    networks: tuple[IPv4Network | IPv6Network, ...] = ()

    @classmethod
    def parse(cls, text: str) -> "TrustedProxies":
        """Parse a number or a comma-separated list of networks; an empty text trusts no proxy."""
        if text.strip().isdigit():
            return cls(count=int(text))
        try:
            return cls(networks=tuple(ip_network(part.strip()) for part in text.split(",") if part.strip()))
        except ValueError as error:
            raise ImproperlyConfigured(f"{INVALID} {error}.") from None

    def find_client(self, peer: str, forwarded: Sequence[str]) -> str:
        """The client's address, found from the connection's address and the X-Forwarded-For entries."""
        if not self.networks:
            return forwarded[-self.count] if 0 < self.count <= len(forwarded) else peer
        addresses = [peer, *reversed(forwarded)]
        return next((address for address in addresses if not self._is_proxy(address)), addresses[-1])

    def _is_proxy(self, address: str) -> bool:
        try:
            return any(ip_address(address) in network for network in self.networks)
        except ValueError:
            return False


def client_address(request: HttpRequest) -> str:
    """The address to count requests by: IPv4 in full, IPv6 by network; the connection's if the header is invalid."""
    peer = request.META.get("REMOTE_ADDR") or ""
    forwarded = [part.strip() for part in request.headers.get("x-forwarded-for", "").split(",") if part.strip()]
    found = settings.TRUSTED_PROXIES.find_client(peer, forwarded)
    return _normalise(found) or _normalise(peer) or "0.0.0.0"  # noqa: S104  (a Unix socket has no address)


def _normalise(text: str) -> str:
    try:
        address = ip_address(text)
    except ValueError:
        return ""
    if not isinstance(address, IPv6Address):
        return str(address)
    if address.ipv4_mapped:
        return str(address.ipv4_mapped)
    return str(IPv6Network((int(address), IPV6_PREFIX), strict=False).network_address)
