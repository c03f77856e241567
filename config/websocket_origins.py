"""WebSocket origin check: only our own pages may connect; scheme and port must match as well."""

from collections.abc import Awaitable, Callable
from typing import Any

from channels.security.websocket import WebsocketDenier
from django.conf import settings
from django.http.request import validate_host

Scope = dict[str, Any]
App = Callable[[Scope, Any, Any], Awaitable[None]]


class SameOriginOnly:
    """Deny the handshake (403) if the Origin header is missing or is not this server's origin."""

    def __init__(self, app: App) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        app = self.app if is_own_origin(scope) else WebsocketDenier()
        await app(scope, receive, send)


def is_own_origin(scope: Scope) -> bool:
    headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
    origin, host = headers.get(b"origin", ""), headers.get(b"host", "")
    scheme = "https" if settings.SECURE_SSL_REDIRECT else "http"
    allowed = validate_host(host.rsplit(":", 1)[0] if not host.endswith("]") else host, settings.ALLOWED_HOSTS)
    return allowed and origin in {f"{scheme}://{host}", *settings.CSRF_TRUSTED_ORIGINS}
