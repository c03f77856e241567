"""The door for HTTP and WebSocket."""

import os

from django.core.asgi import get_asgi_application

from config.profiles import settings_module

os.environ.setdefault("DJANGO_SETTINGS_MODULE", settings_module())
http = get_asgi_application()

from channels.auth import AuthMiddlewareStack  # noqa: E402
from channels.routing import ProtocolTypeRouter, URLRouter  # noqa: E402

from config.origins import SameOriginOnly  # noqa: E402
from modelling.urls import websocket_urlpatterns  # noqa: E402

application = ProtocolTypeRouter(
    {"http": http, "websocket": SameOriginOnly(AuthMiddlewareStack(URLRouter(websocket_urlpatterns)))}
)
