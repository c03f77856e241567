"""Settings shared by all profiles."""

import os
from pathlib import Path

from csp.constants import NONE, SELF
from django.utils.translation import gettext_lazy as _

from annotation.http.client_address import TrustedProxies
from config.settings.email import EmailServer

BASE_DIR = Path(__file__).resolve().parents[2]
DATA_DIR = Path(os.environ.get("CONCORD_DATA", BASE_DIR / "data"))

DEBUG = False
ROOT_URLCONF = "config.urls"
ASGI_APPLICATION = "config.asgi.application"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
AUTH_USER_MODEL = "annotation.User"

INSTALLED_APPS = [
    "config.admin_site.ConcordAdminConfig",
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
    "config.middleware.PrivateCacheMiddleware",
    "config.middleware.ErrorPagesMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "annotation.http.login_limits.DeviceCookieMiddleware",
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
            "libraries": {"intervals": "modelling.web.intervals", "keys": "modelling.web.keys"},
        },
    }
]

# Accounts
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
AXES_HANDLER = "annotation.http.login_limits.LoginLimits"
AXES_FAILURE_LIMIT = 5  # per account and address; LoginLimits has the other limits
AXES_COOLOFF_TIME = 0.25  # hours
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]  # a successful log-in resets failures with the same values
AXES_CLIENT_IP_CALLABLE = "annotation.http.client_address.client_address"
AXES_RESET_ON_SUCCESS = True
AXES_LOCKOUT_CALLABLE = "annotation.http.error_pages.locked_out"
AXES_ENABLE_ACCESS_FAILURE_LOG = True
AXES_SENSITIVE_PARAMETERS: list[str] = []
AXES_VERBOSE = False

PASSWORD_RESET_TIMEOUT = 2 * 3600  # seconds

# Email
MAIL = EmailServer.from_url(os.environ.get("EMAIL_URL", ""))
EMAIL_BACKEND = MAIL.backend
EMAIL_HOST, EMAIL_PORT = MAIL.host, MAIL.port
EMAIL_HOST_USER, EMAIL_HOST_PASSWORD = MAIL.user, MAIL.password
EMAIL_USE_TLS, EMAIL_USE_SSL = MAIL.starttls, MAIL.tls
EMAIL_TIMEOUT = 10
DEFAULT_FROM_EMAIL = os.environ.get("EMAIL_FROM", "Concord <concord@localhost>")
# The base URL for links in emails, such as https://study.example.org; if empty, the request's host.
PUBLIC_ADDRESS = os.environ.get("PUBLIC_ADDRESS", "").rstrip("/")

# Requests
# The proxies whose X-Forwarded-For is trusted: their number, or their networks. By default none.
TRUSTED_PROXIES = TrustedProxies.parse(os.environ.get("TRUSTED_PROXIES", ""))
# Where requests are counted: in the web process's own "memory", or in the "cache" (Redis) that processes share.
RATE_LIMITS = "memory"
# How long a request waits for SQLite's write lock, in its process and among processes; then it is refused with 503 and
# sent again by the client. Commands and the updater wait longer.
REQUEST_LOCK_SECONDS = 4.0
# The token for reading /metrics; if empty, the page does not exist.
METRICS_TOKEN = os.environ.get("METRICS_TOKEN", "")

# Cookies and browser security
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
CSRF_COOKIE_HTTPONLY = True
CSRF_COOKIE_SAMESITE = "Lax"
CSRF_FAILURE_VIEW = "annotation.http.error_pages.csrf_failure"
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
        "worker-src": [SELF],
        "form-action": [SELF],
        "base-uri": [NONE],
        "object-src": [NONE],
        "frame-ancestors": [NONE],
    }
}
DATA_UPLOAD_MAX_MEMORY_SIZE = 1_000_000  # a judgement is a few hundred bytes; files are streamed
FILE_UPLOAD_MAX_MEMORY_SIZE = 1_000_000
IMPORT_MAX_BYTES = 50_000_000
IMPORT_MAX_ROWS = 200_000

# Hosts to which a study may send workers when they have finished; a leading dot includes subdomains.
COMPLETION_HOSTS = [
    "app.prolific.com",
    "connect.cloudresearch.com",
    ".sona-systems.com",
    *filter(None, os.environ.get("COMPLETION_HOSTS", "").split(",")),
]

# Language and time
LANGUAGE_CODE = os.environ.get("CONCORD_LANGUAGE", "en")  # the language of researchers' pages; a study has its own
LANGUAGES = [("en", _("English")), ("de", _("German"))]
LOCALE_PATHS = [BASE_DIR / "locale"]
USE_I18N = True
USE_TZ = True
TIME_ZONE = "UTC"

# Static files
STATIC_URL = "static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
STATICFILES_FINDERS = [
    "django.contrib.staticfiles.finders.FileSystemFinder",
    "django.contrib.staticfiles.finders.AppDirectoriesFinder",
    "config.static_files.PackageFiles",
]
# Set another folder if a proxy serves the files, because it cannot read the data folder.
STATIC_ROOT = Path(os.environ.get("STATIC_ROOT") or DATA_DIR / "staticfiles")
# Names include a content hash, so that a browser downloads each file once.
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "config.static_files.HashedStaticFiles"},
}

# Hooks by dotted name, so that the apps need not import config.
# Called by `serve` before it accepts requests.
COLLECT_STATIC = "config.static_files.collect"
# Called by `reproduce`; returns the environment of a process with its own empty database.
FRESH_ENVIRONMENT = "config.profiles.fresh_environment"
# Called with the project's id after each committed judgement.
AFTER_JUDGEMENT: list[str] = []
# Called with the user after a password reset by email.
AFTER_RESET = ["modelling.web.api.tokens.revoke_all_tokens"]
# The Celery application that wakes updaters; empty if the updater polls.
TASK_QUEUE = ""
# Where arrays, exported files and uploads are stored: "files" under DATA_DIR, or "table" if several machines need them.
FILE_STORAGE = "files"
# Name or path of the browser that prints reports to PDF; empty: the first of Chromium and Chrome that is installed.
PDF_BROWSER = os.environ.get("PDF_BROWSER", "")

# The Dask scheduler whose processes compute the fits of large studies (docs/scale.md); empty: the updater computes.
DASK_SCHEDULER = os.environ.get("DASK_SCHEDULER", "")

# Fault injection for drills (annotation/storage/fault_injection.py). The server does not start with FAULTS otherwise.
FAULTS = os.environ.get("FAULTS", "")
FAULTS_ALLOWED = os.environ.get("CONCORD_DRILL") == "1"

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "filters": {"request_id": {"()": "config.monitoring.json_logging.RequestIdFilter"}},
    "formatters": {"json": {"()": "config.monitoring.json_logging.JsonFormatter"}},
    "handlers": {
        "stderr": {"class": "logging.StreamHandler", "formatter": "json", "filters": ["request_id"]},
        "error_counter": {"class": "config.monitoring.process_metrics.ErrorCounter", "level": "ERROR"},
    },
    "root": {"handlers": ["stderr", "error_counter"], "level": os.environ.get("LOG_LEVEL", "INFO")},
    "loggers": {
        "django.server": {"handlers": ["stderr"], "propagate": False},
        "django.request": {"level": "ERROR"},  # RequestIdMiddleware logs other responses
        "uvicorn": {"handlers": ["stderr", "error_counter"], "level": "WARNING", "propagate": False},
        "uvicorn.error": {"level": "WARNING"},  # lower levels log WebSocket headers, including cookies
        "uvicorn.asgi": {"level": "WARNING"},
        "uvicorn.access": {"handlers": [], "propagate": False},  # contains addresses; RequestIdMiddleware logs requests
        "websockets": {"level": "WARNING"},
        "django.security.DisallowedHost": {"level": "ERROR"},
        "axes": {"level": "ERROR"},  # warnings contain names and addresses; axes keeps records in the database
    },
}
