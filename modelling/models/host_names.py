"""Host names that webhooks may be sent to: their syntax, and how a host and port are written."""

import re

HTTPS_PORT = 443
MAX_LENGTH = 253
_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
HOST_NAME = rf"(?:{_LABEL}\.)+(?=[a-z]){_LABEL}"  # the last label starts with a letter, so no IP address matches


def is_host_name(name: str) -> bool:
    return len(name) <= MAX_LENGTH and bool(re.fullmatch(HOST_NAME, name))


def format_host(host: str, port: int) -> str:
    """Format as in the Host header: the port is included only if it is not the default."""
    return host if port == HTTPS_PORT else f"{host}:{port}"
