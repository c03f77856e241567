"""Several processes or machines: PostgreSQL by DATABASE_URL, Redis by REDIS_URL, TLS in front."""

import os

import dj_database_url
from django.core.exceptions import ImproperlyConfigured

from config.secrets import secret_key
from config.settings.base import *  # noqa: F403
from config.settings.base import DATA_DIR, PUBLIC_ADDRESS

SECRET_KEY = secret_key(DATA_DIR)
SECRET_KEY_FALLBACKS = [*filter(None, os.environ.get("SECRET_KEY_FALLBACKS", "").split(","))]
DATABASES = {"default": dj_database_url.config(conn_max_age=0)}
if DATABASES["default"]["ENGINE"] != "django.db.backends.postgresql":
    raise ImproperlyConfigured("DATABASE_URL must name a PostgreSQL database (postgres://...). Unset it to use SQLite.")
DATABASES["default"]["OPTIONS"] = {
    **DATABASES["default"].get("OPTIONS", {}),
    "pool": {"min_size": 2, "max_size": 10, "timeout": 10},
    "options": "-c synchronous_commit=on -c statement_timeout=30000 -c lock_timeout=10000",
}
try:
    REDIS_URL = os.environ["REDIS_URL"]
    ALLOWED_HOSTS = [*filter(None, os.environ["ALLOWED_HOSTS"].split(","))]
except KeyError as missing:
    raise ImproperlyConfigured(f"With DATABASE_URL set, {missing} must be set too. See docs/deployment.md.") from None
CACHES = {
    "default": {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": REDIS_URL,
        "OPTIONS": {"socket_connect_timeout": 0.2, "socket_timeout": 0.2},
    }
}
CHANNEL_LAYERS = {
    "default": {
        "BACKEND": "channels_redis.core.RedisChannelLayer",
        # A socket waits for its next message as long as it takes; the client's own five seconds would close it.
        "CONFIG": {"hosts": [{"address": REDIS_URL, "socket_timeout": None}]},
    }
}
CSRF_TRUSTED_ORIGINS = [f"https://{host}" for host in ALLOWED_HOSTS]
PUBLIC_ADDRESS = PUBLIC_ADDRESS or f"https://{next(iter(ALLOWED_HOSTS), 'localhost').lstrip('.')}"
SNAPSHOT_ARRAYS = "table"

# Updates: a hint after each judgement, and a look every five seconds for whatever no hint spoke of.
AFTER_JUDGEMENT = ["modelling.tasks.wake"]
TASK_QUEUE = "config.celery.app"
CELERY_BROKER_URL = REDIS_URL
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_TRANSPORT_OPTIONS = {"socket_connect_timeout": 1, "socket_timeout": 10}
CELERY_TASK_IGNORE_RESULT = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_BEAT_SCHEDULE = {
    "sweep": {"task": "modelling.tasks.bring_up_to_date", "schedule": 5.0, "options": {"expires": 5.0}}
}
CELERY_BEAT_SCHEDULE_FILENAME = str(DATA_DIR / "beat-schedule")

SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
SECURE_SSL_REDIRECT = True
SECURE_REDIRECT_EXEMPT = [r"^healthz$", r"^readyz$"]
SECURE_HSTS_SECONDS = 31_536_000
SECURE_HSTS_INCLUDE_SUBDOMAINS = True
SECURE_HSTS_PRELOAD = True
SESSION_COOKIE_SECURE = True
CSRF_COOKIE_SECURE = True
SESSION_COOKIE_NAME = "__Host-sessionid"
CSRF_COOKIE_NAME = "__Host-csrftoken"
