"""What both profiles share. Nothing here depends on the machine; `embedded`, `server` and `test` do."""

import os
from pathlib import Path

from csp.constants import NONE, SELF
from django.utils.translation import gettext_lazy as _

from config.mail import Mail

BASE_DIR = Path(__file__).resolve().parents[2]
DATA_DIR = Path(os.environ.get("CONCORD_DATA", BASE_DIR / "data"))

DEBUG = False
ROOT_URLCONF = "config.urls"
ASGI_APPLICATION = "config.asgi.application"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
AUTH_USER_MODEL = "annotation.User"

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "axes",
    "channels",
    "csp",
    "annotation",
    "modelling",
]
MIDDLEWARE = [
    "config.middleware.RequestIdMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "config.middleware.PlainAnswersMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "axes.middleware.AxesMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "config.middleware.request_id",
            ],
        },
    }
]

# People
AUTHENTICATION_BACKENDS = ["axes.backends.AxesStandaloneBackend", "django.contrib.auth.backends.ModelBackend"]
PASSWORD_HASHERS = [
    "django.contrib.auth.hashers.Argon2PasswordHasher",
    "django.contrib.auth.hashers.PBKDF2PasswordHasher",
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.NumericPasswordValidator"},
]
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "annotation:projects"
LOGOUT_REDIRECT_URL = "annotation:home"
AXES_FAILURE_LIMIT = 5
AXES_COOLOFF_TIME = 0.25  # hours
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
AXES_RESET_ON_SUCCESS = True
AXES_LOCKOUT_CALLABLE = "annotation.errors.locked_out"
AXES_ENABLE_ACCESS_FAILURE_LOG = True
AXES_SENSITIVE_PARAMETERS: list[str] = []
AXES_VERBOSE = False

PASSWORD_RESET_TIMEOUT = 2 * 3600  # seconds

# Letters
MAIL = Mail.of(os.environ.get("EMAIL_URL", ""))
EMAIL_BACKEND = MAIL.backend
EMAIL_HOST, EMAIL_PORT = MAIL.host, MAIL.port
EMAIL_HOST_USER, EMAIL_HOST_PASSWORD = MAIL.user, MAIL.password
EMAIL_USE_TLS, EMAIL_USE_SSL = MAIL.starttls, MAIL.tls
EMAIL_TIMEOUT = 10
DEFAULT_FROM_EMAIL = os.environ.get("EMAIL_FROM", "Concord <concord@localhost>")
# What links in letters begin with, such as https://study.example.org; empty: the host that was asked, if allowed.
PUBLIC_ADDRESS = os.environ.get("PUBLIC_ADDRESS", "").rstrip("/")

# Cookies, frames, scripts
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
CSRF_COOKIE_HTTPONLY = True
CSRF_COOKIE_SAMESITE = "Lax"
CSRF_FAILURE_VIEW = "annotation.errors.csrf_failed"
X_FRAME_OPTIONS = "DENY"
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF],
        "style-src": [SELF],
        "img-src": [SELF, "data:"],
        "font-src": [SELF],
        "connect-src": [SELF],
        "manifest-src": [SELF],
        "form-action": [SELF],
        "base-uri": [NONE],
        "object-src": [NONE],
        "frame-ancestors": [NONE],
    }
}
DATA_UPLOAD_MAX_MEMORY_SIZE = 1_000_000  # a judgement is a few hundred bytes; files are streamed apart
FILE_UPLOAD_MAX_MEMORY_SIZE = 1_000_000
IMPORT_MAX_BYTES = 50_000_000
IMPORT_MAX_ROWS = 200_000

# Words and times
LANGUAGE_CODE = os.environ.get("CONCORD_LANGUAGE", "en")  # of researchers' pages; a study says its own
LANGUAGES = [("en", _("English")), ("de", _("German"))]
LOCALE_PATHS = [BASE_DIR / "locale"]
USE_I18N = True
USE_TZ = True
TIME_ZONE = "UTC"

# Files
STATIC_URL = "static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
STATICFILES_FINDERS = [
    "django.contrib.staticfiles.finders.FileSystemFinder",
    "django.contrib.staticfiles.finders.AppDirectoriesFinder",
    "config.static.PlotlyScript",
]
STATIC_ROOT = DATA_DIR / "staticfiles"
# Names carry a hash of the content, so that a browser on a bad network fetches each file once.
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "config.static.HashedStaticFiles"},
}

# Called by `serve` before the first page: every static file is in its place.
COLLECT_STATIC = "config.static.collect"
# Called by `reproduce`: the variables of a process that has an empty database of its own.
FRESH_ENVIRONMENT = "config.profiles.fresh_environment"
# Dotted names called after each committed judgement, with the project's id.
AFTER_JUDGEMENT: list[str] = []
AFTER_RESET = ["modelling.tokens.revoke_all_of"]  # each is called with the person whose password was set by letter
# The Celery application that carries hints to updaters; empty where the updater looks by itself.
TASK_QUEUE = ""
# Where the arrays of a snapshot live: "files" under DATA_DIR, or "table" where several machines must read them.
SNAPSHOT_ARRAYS = "files"

# Faults on purpose, for drills (annotation/faults.py); a server that finds them set without the second does not start.
FAULTS = os.environ.get("FAULTS", "")
FAULTS_ALLOWED = os.environ.get("CONCORD_DRILL") == "1"

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "filters": {"request_id": {"()": "config.logs.RequestIdFilter"}},
    "formatters": {"json": {"()": "config.logs.JsonFormatter"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "json", "filters": ["request_id"]}},
    "root": {"handlers": ["stderr"], "level": os.environ.get("LOG_LEVEL", "INFO")},
    "loggers": {
        "django.server": {"handlers": ["stderr"], "propagate": False},
        "django.request": {"level": "ERROR"},  # our own line tells of the rest, without the keys that paths may hold
        "django.security.DisallowedHost": {"level": "ERROR"},
        "axes": {"level": "WARNING"},
    },
}
