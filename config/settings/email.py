"""Email settings from EMAIL_URL; without it, email is printed to the console."""

from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

STARTTLS, TLS, PLAIN = "smtp+tls", "smtps", "smtp"
PORTS = {STARTTLS: 587, TLS: 465, PLAIN: 25}


@dataclass(frozen=True)
class EmailServer:
    backend: str = "django.core.mail.backends.console.EmailBackend"
    host: str = "localhost"
    port: int = 25
    user: str = ""
    password: str = ""
    starttls: bool = False
    tls: bool = False

    @classmethod
    def from_url(cls, url: str) -> "EmailServer":
        """Parse smtp+tls://user:password@host:587, smtps://…:465 or smtp://…:25; an empty URL means the console."""
        if not url:
            return cls()
        parts = urlsplit(url)
        if parts.scheme not in PORTS or not parts.hostname:
            raise ImproperlyConfigured("EMAIL_URL must look like smtp+tls://user:password@mail.example.org:587.")
        return cls(
            backend="django.core.mail.backends.smtp.EmailBackend",
            host=parts.hostname,
            port=parts.port or PORTS[parts.scheme],
            user=unquote(parts.username or ""),
            password=unquote(parts.password or ""),
            starttls=parts.scheme == STARTTLS,
            tls=parts.scheme == TLS,
        )
