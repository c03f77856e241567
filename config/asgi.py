"""The door for HTTP and WebSocket."""

import os

from django.core.asgi import get_asgi_application

from config.profiles import settings_module

os.environ.setdefault("DJANGO_SETTINGS_MODULE", settings_module())
django_application = get_asgi_application()

from channels.auth import AuthMiddlewareStack  # noqa: E402
from channels.routing import ProtocolTypeRouter, URLRouter  # noqa: E402

from django.conf import settings  # noqa: E402

from annotation.importing.doorstep import BodyLimit  # noqa: E402
from config.origins import SameOriginOnly  # noqa: E402
from modelling.urls import websocket_urlpatterns  # noqa: E402

# The largest file that may be imported, and what a form around it takes.
LARGEST_BODY = settings.IMPORT_MAX_BYTES + 200_000

http = BodyLimit(django_application, limit=LARGEST_BODY)
application = ProtocolTypeRouter(
    {"http": http, "websocket": SameOriginOnly(AuthMiddlewareStack(URLRouter(websocket_urlpatterns)))}
)
