"""Server profile: PostgreSQL (DATABASE_URL), Redis (REDIS_URL), several processes behind a TLS proxy."""

import os

from django.core.exceptions import ImproperlyConfigured

from config.databases.postgresql import postgres_database
from config.secret_key import checkpoint_key, make_private, secret_key
from config.settings.base import *  # noqa: F403
from config.settings.base import DATA_DIR, PUBLIC_ADDRESS
from config.settings.tls import *  # noqa: F403

make_private(DATA_DIR)
SECRET_KEY = secret_key(DATA_DIR)
CHECKPOINT_KEY = checkpoint_key(DATA_DIR)
SECRET_KEY_FALLBACKS = [*filter(None, os.environ.get("SECRET_KEY_FALLBACKS", "").split(","))]
DATABASES = {"default": postgres_database()}
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
RATE_LIMITS = "cache"
CSRF_TRUSTED_ORIGINS = [f"https://{host}" for host in ALLOWED_HOSTS]
PUBLIC_ADDRESS = PUBLIC_ADDRESS or f"https://{next(iter(ALLOWED_HOSTS), 'localhost').lstrip('.')}"
FILE_STORAGE = "table"

# Updates: a task after each judgement, and a sweep every five seconds for what was missed.
AFTER_JUDGEMENT = ["modelling.updater.tasks.wake_updater"]
TASK_QUEUE = "config.celery.app"
CELERY_BROKER_URL = REDIS_URL
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_TRANSPORT_OPTIONS = {"socket_connect_timeout": 1, "socket_timeout": 10}
CELERY_TASK_IGNORE_RESULT = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_BEAT_SCHEDULE = {
    "sweep": {"task": "modelling.updater.tasks.bring_up_to_date", "schedule": 5.0, "options": {"expires": 5.0}}
}
CELERY_BEAT_SCHEDULE_FILENAME = str(DATA_DIR / "beat-schedule")

SECURE_SSL_REDIRECT = True
SECURE_REDIRECT_EXEMPT = [r"^healthz$", r"^readyz$", r"^metrics$"]
SECURE_HSTS_INCLUDE_SUBDOMAINS = True
SECURE_HSTS_PRELOAD = True
SESSION_COOKIE_NAME = "__Host-sessionid"
CSRF_COOKIE_NAME = "__Host-csrftoken"
