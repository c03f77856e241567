"""The demo's researcher account, with a generated password in a file that only its owner can read."""

import os
import secrets
from dataclasses import dataclass, field
from pathlib import Path

from django.conf import settings
from django.contrib.auth.models import Permission
from django.db import transaction

from annotation.models import User
from annotation.models.workers import CODE_ALPHABET

USERNAME = "demo"
PARTS, PART_LENGTH = 4, 4  # 79 bits, and still easy to type


@dataclass(frozen=True)
class LogIn:
    """The demo's researcher, and the password if it is still the generated one."""

    user: User
    password: str | None = field(repr=False)


def password_file() -> Path:
    return Path(settings.DATA_DIR) / "demo_password"


def get_or_create_login() -> LogIn:
    """Return the demo's researcher, created if missing, and the password unless it has been changed since."""
    user = User.objects.filter(username=USERNAME).first()
    if user is None:
        password = _read() or _write(_new_password())
        return LogIn(_create_user(password), password)
    stored = _read()
    return LogIn(user, stored if stored and user.check_password(stored) else None)


@transaction.atomic
def _create_user(password: str) -> User:
    """Create a researcher who may view the admin but change nothing there."""
    user = User.objects.create_user(USERNAME, password=password, is_staff=True)
    permissions = Permission.objects.filter(content_type__app_label__in=["annotation", "modelling"])
    user.user_permissions.set(permissions.filter(codename__startswith="view_"))
    return user


def _new_password() -> str:
    """Four groups of four characters, without characters that look alike."""
    return "-".join("".join(secrets.choice(CODE_ALPHABET) for _ in range(PART_LENGTH)) for _ in range(PARTS))


def _read() -> str | None:
    try:
        return password_file().read_text(encoding="ascii").strip()
    except FileNotFoundError:
        return None


def _write(password: str) -> str:
    """Store the password in a file of mode 600 and return it."""
    path = password_file()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(password)
    return password
