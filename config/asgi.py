"""The ASGI application for HTTP and WebSocket."""

import os
from threading import Thread

import django

from config.profiles import settings_module

os.environ.setdefault("DJANGO_SETTINGS_MODULE", settings_module())
django.setup(set_prefix=False)

from channels.auth import AuthMiddlewareStack  # noqa: E402
from channels.routing import ProtocolTypeRouter, URLRouter  # noqa: E402
from channels.security.websocket import WebsocketDenier  # noqa: E402
from django.conf import settings  # noqa: E402
from django.urls import re_path  # noqa: E402

from annotation.http.upload_limit import BodyLimit  # noqa: E402
from config.asgi_handler import PooledHandler  # noqa: E402
from config.databases.sqlite.base import DatabaseWrapper as SqliteDatabase  # noqa: E402
from config.websocket_origins import SameOriginOnly  # noqa: E402
from modelling.updater.startup import warm_up  # noqa: E402
from modelling.web.urls import websocket_urlpatterns  # noqa: E402

# The largest file that can be imported, plus the form's other fields.
MAX_BODY_BYTES = settings.IMPORT_MAX_BYTES + 200_000

SqliteDatabase.lock_seconds = settings.REQUEST_LOCK_SECONDS

http = BodyLimit(PooledHandler(), limit=MAX_BODY_BYTES)
sockets = URLRouter([*websocket_urlpatterns, re_path("", WebsocketDenier.as_asgi())])  # any other path gets 403
application = ProtocolTypeRouter({"http": http, "websocket": SameOriginOnly(AuthMiddlewareStack(sockets))})

Thread(target=warm_up, name="warm-up", daemon=True).start()
